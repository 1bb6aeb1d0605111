//! Reads what the scripts answer. Anything unexpected is `None`, never a guess.

use std::str::FromStr;
use std::time::Duration;

use redis::Value;
use serde::de::DeserializeOwned;

use super::super::{
    ClaimReply, ExtendReply, History, Holder, ReleaseReply, Skip, SkipRecord, Stamped, Taken, Won,
};
use crate::Timestamp;

/// The parts of an answer that are not read yet.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// The time, then whatever `read` makes of the rest; nothing may be left over.
    pub(super) fn stamped<T>(value: Value, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Stamped<T>> {
        let mut reply = Self::new(value)?;
        let at = reply.instant()?;
        let stamped = Stamped { at, reply: read(&mut reply)? };
        reply.0.next().is_none().then_some(stamped)
    }

    /// The answer to `TIME`: seconds and microseconds.
    pub(super) fn time(value: Value) -> Option<Stamped<()>> {
        let mut reply = Self::new(value)?;
        let (seconds, micros) = (reply.number::<i64>()?, reply.number::<i64>()?);
        let at = Timestamp::from_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?);
        Some(Stamped { at, reply: () })
    }

    fn new(value: Value) -> Option<Self> {
        match value {
            Value::Array(parts) => Some(Self(parts.into_iter())),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        match self.0.next()? {
            Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    fn number<N: FromStr>(&mut self) -> Option<N> {
        self.text()?.parse().ok()
    }

    fn instant(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_micros)
    }

    fn duration(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.text()?.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    fn records<T: DeserializeOwned>(&mut self) -> Option<Vec<T>> {
        let mut records = Self::new(self.0.next()?)?;
        std::iter::from_fn(|| (records.0.len() > 0).then(|| records.text()))
            .map(|json| serde_json::from_str(&json?).ok())
            .collect()
    }
}

pub(super) fn claim(tick: Option<Timestamp>) -> impl FnOnce(&mut Reply) -> Option<ClaimReply> {
    move |reply| {
        Some(match reply.text()?.as_str() {
            "won" => ClaimReply::Won(Won {
                fence: reply.number()?,
                attempt: reply.number()?,
                since: reply.instant()?,
                until: reply.instant()?,
                missed_after: None,
                usual: None,
            }),
            "lost" => ClaimReply::Lost,
            "early" => ClaimReply::Early(reply.duration()?),
            "started" => ClaimReply::Taken(Taken::Started {
                server: reply.text()?,
                since: reply.instant()?,
                finished: reply.flag()?,
            }),
            "skipped" => ClaimReply::Taken(Taken::Skipped(SkipRecord {
                tick: tick?,
                reason: match reply.text()?.as_str() {
                    "held" => Skip::Held,
                    "paused" => Skip::Paused,
                    _ => return None,
                },
                server: reply.text()?,
                at: reply.instant()?,
            })),
            "superseded" => ClaimReply::Superseded(reply.instant()?),
            "ahead" => ClaimReply::Ahead(reply.instant()?),
            "paused" => ClaimReply::Paused,
            "late" => ClaimReply::Late(reply.duration()?),
            "held" => ClaimReply::Held(Holder {
                server: Some(reply.text()?),
                since: Some(reply.instant()?),
                remaining: Some(reply.duration()?),
            }),
            "locked" => ClaimReply::Held(Holder {
                server: None,
                since: None,
                remaining: match reply.text()?.as_str() {
                    "" => None,
                    micros => Some(Duration::from_micros(micros.parse().ok()?)),
                },
            }),
            _ => return None,
        })
    }
}

pub(super) fn extend(reply: &mut Reply) -> Option<ExtendReply> {
    Some(match reply.text()?.as_str() {
        "kept" => ExtendReply::Kept(reply.instant()?),
        "restored" => ExtendReply::Restored(reply.instant()?),
        "lost" => ExtendReply::Lost,
        _ => return None,
    })
}

pub(super) fn release(reply: &mut Reply) -> Option<ReleaseReply> {
    Some(match reply.text()?.as_str() {
        "released" => ReleaseReply::Released,
        "restored" => ReleaseReply::Restored,
        "not-held" => ReleaseReply::NotHeld,
        _ => return None,
    })
}

pub(super) fn history(reply: &mut Reply) -> Option<History> {
    Some(History { runs: reply.records()?, skips: reply.records()?, ..History::default() })
}
