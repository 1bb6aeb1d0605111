//! Reads what the scripts answer. Anything unexpected is `None`, never a guess.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use redis::Value;
use serde::de::DeserializeOwned;

use super::super::model::State;
use super::super::{
    ClaimReply, ExtendReply, ForgetReply, HeldLock, Holder, Kind, Registered, ReleaseReply, RequestHint,
    Requested, ServerInfo, Skip, SkipRecord, Stamped, Stats, Taken, Unfinished, Verdict, What, Won,
};
use crate::Timestamp;

/// The parts of an answer that are not read yet.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// The time, then whatever `read` makes of the rest; nothing may be left over.
    pub(super) fn stamped<T>(value: Value, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Stamped<T>> {
        Self::new(value)?.all(|reply| Some(Stamped { at: reply.instant()?, reply: read(reply)? }))
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

    fn all<T>(mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let whole = read(&mut self)?;
        self.is_over().then_some(whole)
    }

    fn list(&mut self) -> Option<Self> {
        Self::new(self.0.next()?)
    }

    fn is_over(&self) -> bool {
        self.0.len() == 0
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        let mut texts = self.list()?;
        std::iter::from_fn(|| (!texts.is_over()).then(|| texts.text())).collect()
    }

    /// A list of names and values, in turn.
    pub(super) fn pairs(&mut self) -> Option<BTreeMap<String, String>> {
        let mut parts = self.list()?;
        std::iter::from_fn(|| (!parts.is_over()).then(|| parts.text().zip(parts.text()))).collect()
    }

    pub(super) fn records<C: FromIterator<T>, T: DeserializeOwned>(&mut self) -> Option<C> {
        self.texts()?.iter().map(|json| serde_json::from_str(json).ok()).collect()
    }
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

pub(super) fn skip_reason(text: &str) -> Option<Skip> {
    match text {
        "held" => Some(Skip::Held),
        "paused" => Some(Skip::Paused),
        _ => None,
    }
}

/// Empty if it is not known.
fn number_if_known<N: FromStr>(text: &str) -> Result<Option<N>, N::Err> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

pub(super) fn claim(reply: &mut Reply, what: &What) -> Option<Verdict> {
    if let What::Slot(_) = what {
        return slot_claim(reply);
    }
    let decision = reply.list()?.all(|reply| claim_reply(reply, what))?;
    let (unfinished, other_schedule) = (reply.list()?, reply.list()?);
    let unfinished = if unfinished.is_over() { None } else { Some(unfinished.all(unfinished_tick)?) };
    let other_schedule = if other_schedule.is_over() { None } else { Some(other_schedule.all(registered)?) };
    Some(Verdict { decision, unfinished, other_schedule })
}

fn claim_reply(reply: &mut Reply, what: &What) -> Option<ClaimReply> {
    let word = reply.text()?;
    Some(match word.as_str() {
        "won" => ClaimReply::Won(Won {
            fence: reply.number()?,
            attempt: reply.number()?,
            since: reply.instant()?,
            until: reply.instant()?,
            missed_after: number_if_known(&reply.text()?).ok()?.map(Timestamp::from_micros),
            usual: {
                let (successes, total_micros) = (reply.number()?, reply.number()?);
                let stats = Stats { successes, total_micros, ..Stats::default() };
                State { stats, ..State::default() }.usual()
            },
        }),
        "lost" => ClaimReply::Lost,
        "early" => ClaimReply::Early(reply.duration()?),
        "started" => ClaimReply::Taken(Taken::Started {
            server: reply.text()?,
            since: reply.instant()?,
            finished: flag(&reply.text()?)?,
        }),
        "skipped" => ClaimReply::Taken(Taken::Skipped(SkipRecord {
            tick: match what {
                What::Tick(ask) => ask.tick,
                _ => return None,
            },
            reason: skip_reason(&reply.text()?)?,
            server: reply.text()?,
            at: reply.instant()?,
        })),
        "superseded" => ClaimReply::Superseded(reply.instant()?),
        "ahead" => ClaimReply::Ahead(reply.instant()?),
        "unregistered" => ClaimReply::Unregistered,
        "paused" => ClaimReply::Paused,
        "late" => ClaimReply::Late(reply.duration()?),
        "not-requested" => ClaimReply::NotRequested,
        "done" => ClaimReply::Done(reply.instant()?),
        word => ClaimReply::Held(holder(word, reply)?),
    })
}

fn unfinished_tick(reply: &mut Reply) -> Option<Unfinished> {
    let tick = reply.instant()?;
    Some(Unfinished { tick, remaining: number_if_known(&reply.text()?).ok()?.map(Duration::from_micros) })
}

fn registered(reply: &mut Reply) -> Option<Registered> {
    Some(Registered {
        schedule: reply.text()?,
        at: reply.instant()?,
        server: reply.text()?,
        begun: reply.instant()?,
        used: reply.instant()?,
    })
}

fn holder(word: &str, reply: &mut Reply) -> Option<Holder> {
    let remaining = number_if_known(&reply.text()?).ok()?.map(Duration::from_micros);
    match word {
        "held" => Some(Holder { remaining, server: Some(reply.text()?), since: Some(reply.instant()?) }),
        "locked" => Some(Holder { remaining, server: None, since: None }),
        _ => None,
    }
}

fn slot_claim(reply: &mut Reply) -> Option<Verdict> {
    let word = reply.text()?;
    let decision = match word.as_str() {
        "won" => ClaimReply::Won(Won {
            fence: reply.number()?,
            attempt: 1,
            since: reply.instant()?,
            until: reply.instant()?,
            missed_after: None,
            usual: None,
        }),
        word => ClaimReply::Held(holder(word, reply)?),
    };
    Some(decision.into())
}

/// The lock, if it is held, and the slots.
pub(super) fn held(reply: &mut Reply, key: &str) -> Option<Vec<HeldLock>> {
    let (lock, mut slots) = (reply.list()?, reply.list()?);
    let mut held = Vec::new();
    if !lock.is_over() {
        held.push(lock.all(|reply| held_lock(reply, key, lock_kind))?);
    }
    while !slots.is_over() {
        let slot = |of: &str| Some(Kind::Slot { of: of.parse().ok()? });
        held.push(slots.list()?.all(|reply| held_lock(reply, key, slot))?);
    }
    Some(held)
}

fn held_lock(reply: &mut Reply, key: &str, kind: impl FnOnce(&str) -> Option<Kind>) -> Option<HeldLock> {
    let word = reply.text()?;
    let holder = holder(&word, reply)?;
    let (kind, fence) = match holder.server {
        Some(_) => (Some(kind(&reply.text()?)?), Some(reply.number()?)),
        None => (None, None),
    };
    Some(HeldLock { key: key.to_owned(), kind, fence, holder })
}

pub(super) fn lock_kind(word: &str) -> Option<Kind> {
    [Kind::Run, Kind::Lock, Kind::Once, Kind::Leader].into_iter().find(|kind| kind.as_str() == word)
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

pub(super) fn forget(reply: &mut Reply) -> Option<ForgetReply> {
    let word = reply.text()?;
    Some(match word.as_str() {
        "forgotten" => ForgetReply::Forgotten,
        "paused" => ForgetReply::Paused,
        "too-recent" => ForgetReply::TooRecent(reply.instant()?),
        word => ForgetReply::Held(holder(word, reply)?),
    })
}

pub(super) fn request(reply: &mut Reply) -> Option<Requested> {
    Some(Requested { id: reply.text()?, by: reply.text()?, until: reply.instant()?, answer: None })
}

pub(super) fn hints(reply: &mut Reply) -> Option<Vec<RequestHint>> {
    Some(reply.pairs()?.into_iter().map(|(key, id)| RequestHint { key, id }).collect())
}

pub(super) fn servers(reply: &mut Reply) -> Option<Vec<ServerInfo>> {
    // What a newer version announces may not be readable; the others still are.
    Some(reply.pairs()?.values().filter_map(|about| serde_json::from_str(about).ok()).collect())
}
