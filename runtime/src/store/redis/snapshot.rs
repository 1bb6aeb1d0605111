//! A job's state as it is stored: the fields of a hash, and two lists.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use super::super::model::{Claimant, Done, FORMAT, Mark, Slots, Started, State};
use super::super::{Registered, RequestAnswer, Requested, Stats};
use super::reply::{self, Reply};
use crate::Timestamp;

/// Reads what history.lua answers. The lock and the slots are not part of it.
pub(super) fn read(reply: &mut Reply) -> Option<State> {
    let fields = Fields(reply.pairs()?);
    Some(State {
        format: FORMAT,
        claimant: if fields.has("token") { Some(fields.claimant()?) } else { None },
        started: if fields.has("started_tick") { Some(fields.started()?) } else { None },
        mark: if fields.has("mark") { Some(fields.mark()?) } else { None },
        fence: fields.number("fence")?,
        paused: fields.has("paused") && fields.flag("paused")?,
        registered: if fields.has("registered_at") { Some(fields.registered()?) } else { None },
        request: if fields.has("request_id") { Some(fields.request()?) } else { None },
        stats: fields.stats()?,
        lock: None,
        done: if fields.has("done_at") { Some(fields.done()?) } else { None },
        slots: Slots::default(),
        expires: if fields.0.is_empty() { State::default().expires } else { fields.instant("expires") },
        runs: reply.records()?,
        skips: reply.records()?,
    })
}

struct Fields(BTreeMap<String, String>);

impl Fields {
    fn claimant(&self) -> Option<Claimant> {
        Some(Claimant {
            token: self.get("token")?.into(),
            server: self.get("server")?.into(),
            kind: reply::lock_kind(self.get("kind")?)?,
            tick: if self.get("tick")?.is_empty() { None } else { Some(self.instant("tick")?) },
            attempt: self.number("attempt")?,
            since: self.instant("since")?,
            until: self.instant("until")?,
            released: self.flag("released")?,
            progress: if self.has("progress") { self.json("progress")? } else { None },
        })
    }

    fn done(&self) -> Option<Done> {
        Some(Done { at: self.instant("done_at")?, until: self.instant("done_until")? })
    }

    fn started(&self) -> Option<Started> {
        Some(Started {
            tick: self.instant("started_tick")?,
            attempt: self.number("started_attempt")?,
            finished: self.flag("finished")?,
        })
    }

    fn mark(&self) -> Option<Mark> {
        Some(Mark {
            tick: self.instant("mark")?,
            skip: match self.get("mark_skip")? {
                "" => None,
                reason => Some(reply::skip_reason(reason)?),
            },
            server: self.get("mark_server")?.into(),
            at: self.instant("mark_at")?,
        })
    }

    fn registered(&self) -> Option<Registered> {
        Some(Registered {
            schedule: self.text("registered_schedule")?,
            at: self.instant("registered_at")?,
            server: self.text("registered_server")?,
            begun: self.instant("registered_begun")?,
            used: self.instant("registered_used")?,
        })
    }

    fn request(&self) -> Option<Requested> {
        let server = self.text("request_server")?;
        Some(Requested {
            id: self.text("request_id")?,
            by: self.text("request_by")?,
            until: self.instant("request_until")?,
            answer: match self.get("request_answer")? {
                "" => None,
                "started" => Some(RequestAnswer::Started { server, fence: self.number("request_fence")? }),
                "held" => Some(RequestAnswer::Held { server: Some(server) }),
                "locked" => Some(RequestAnswer::Held { server: None }),
                _ => return None,
            },
        })
    }

    fn stats(&self) -> Option<Stats> {
        Some(Stats {
            runs: self.number("runs")?,
            failures: self.number("failures")?,
            successes: self.number("successes")?,
            total_micros: self.number("total_micros")?,
            longest_micros: self.number("longest_micros")?,
            last_success: if self.has("last_success") { Some(self.instant("last_success")?) } else { None },
        })
    }

    fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    fn text(&self, field: &str) -> Option<String> {
        self.get(field).map(str::to_owned)
    }

    /// Zero until it is written for the first time.
    fn number<N: FromStr + Default>(&self, field: &str) -> Option<N> {
        self.get(field).map_or_else(|| Some(N::default()), |text| text.parse().ok())
    }

    fn instant(&self, field: &str) -> Option<Timestamp> {
        self.get(field)?.parse().ok().map(Timestamp::from_micros)
    }

    fn flag(&self, field: &str) -> Option<bool> {
        reply::flag(self.get(field)?)
    }

    fn json<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        serde_json::from_str(self.get(field)?).ok()
    }
}
