//! What the functions answer, as JSON.

use std::time::Duration;

use serde::Deserialize;

use super::super::model::State;
use super::super::{
    ClaimReply, ExtendReply, ForgetReply, HeldLock, Holder, Kind, Registered, ReleaseReply, ServerInfo,
    SkipRecord, Stats, Taken, Unfinished, Verdict, Won,
};
use crate::Timestamp;

/// Every answer: the time at which the step was decided, and what it was.
#[derive(Deserialize)]
pub(super) struct Answer<T> {
    pub(super) at: Timestamp,
    pub(super) reply: T,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Micros(u64);

impl From<Micros> for Duration {
    fn from(Micros(micros): Micros) -> Self {
        Self::from_micros(micros)
    }
}

#[derive(Deserialize)]
pub(super) struct ClaimAnswer {
    decision: Decision,
    unfinished: Option<Open>,
    other_schedule: Option<Registered>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Won(Winner),
    Lost,
    Early(Micros),
    Started { server: String, since: Timestamp, finished: bool },
    Skipped(SkipRecord),
    Superseded(Timestamp),
    Ahead(Timestamp),
    Unregistered,
    Paused,
    Late(Micros),
    Held(Keeper),
    NotRequested,
    Done(Timestamp),
}

#[derive(Deserialize)]
struct Winner {
    fence: i64,
    attempt: u32,
    since: Timestamp,
    until: Timestamp,
    missed_after: Option<Timestamp>,
    successes: u64,
    total_micros: u64,
}

#[derive(Deserialize)]
pub(super) struct Keeper {
    server: Option<String>,
    since: Option<Timestamp>,
    remaining: Option<Micros>,
}

#[derive(Deserialize)]
struct Open {
    tick: Timestamp,
    remaining: Option<Micros>,
}

impl From<ClaimAnswer> for Verdict {
    fn from(ClaimAnswer { decision, unfinished, other_schedule }: ClaimAnswer) -> Self {
        let unfinished = unfinished
            .map(|Open { tick, remaining }| Unfinished { tick, remaining: remaining.map(Duration::from) });
        Self { decision: decision.into(), unfinished, other_schedule }
    }
}

impl From<Decision> for ClaimReply {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Won(winner) => Self::Won(winner.into()),
            Decision::Lost => Self::Lost,
            Decision::Early(wait) => Self::Early(wait.into()),
            Decision::Started { server, since, finished } => {
                Self::Taken(Taken::Started { server, since, finished })
            }
            Decision::Skipped(record) => Self::Taken(Taken::Skipped(record)),
            Decision::Superseded(mark) => Self::Superseded(mark),
            Decision::Ahead(mark) => Self::Ahead(mark),
            Decision::Unregistered => Self::Unregistered,
            Decision::Paused => Self::Paused,
            Decision::Late(by) => Self::Late(by.into()),
            Decision::Held(keeper) => Self::Held(keeper.into()),
            Decision::NotRequested => Self::NotRequested,
            Decision::Done(at) => Self::Done(at),
        }
    }
}

impl From<Winner> for Won {
    fn from(winner: Winner) -> Self {
        let Winner { fence, attempt, since, until, missed_after, successes, total_micros } = winner;
        let stats = Stats { successes, total_micros, ..Stats::default() };
        let usual = State { stats, ..State::default() }.usual();
        Self { fence, attempt, since, until, missed_after, usual }
    }
}

impl From<Keeper> for Holder {
    fn from(Keeper { server, since, remaining }: Keeper) -> Self {
        Self { server, since, remaining: remaining.map(Duration::from) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExtendAnswer {
    Kept(Timestamp),
    Restored(Timestamp),
    Lost,
}

impl From<ExtendAnswer> for ExtendReply {
    fn from(answer: ExtendAnswer) -> Self {
        match answer {
            ExtendAnswer::Kept(until) => Self::Kept(until),
            ExtendAnswer::Restored(until) => Self::Restored(until),
            ExtendAnswer::Lost => Self::Lost,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReleaseAnswer {
    Released,
    Restored,
    NotHeld,
}

impl From<ReleaseAnswer> for ReleaseReply {
    fn from(answer: ReleaseAnswer) -> Self {
        match answer {
            ReleaseAnswer::Released => Self::Released,
            ReleaseAnswer::Restored => Self::Restored,
            ReleaseAnswer::NotHeld => Self::NotHeld,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForgetAnswer {
    Forgotten,
    Held(Keeper),
    Paused,
    TooRecent(Timestamp),
}

impl From<ForgetAnswer> for ForgetReply {
    fn from(answer: ForgetAnswer) -> Self {
        match answer {
            ForgetAnswer::Forgotten => Self::Forgotten,
            ForgetAnswer::Held(keeper) => Self::Held(keeper.into()),
            ForgetAnswer::Paused => Self::Paused,
            ForgetAnswer::TooRecent(used) => Self::TooRecent(used),
        }
    }
}

/// The locks and slots that are, or were, held.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct HeldOnes(Vec<HeldOne>);

#[derive(Deserialize)]
struct HeldOne {
    key: String,
    kind: Option<Kind>,
    fence: Option<i64>,
    holder: Keeper,
}

impl From<HeldOnes> for Vec<HeldLock> {
    fn from(HeldOnes(held): HeldOnes) -> Self {
        let held = held.into_iter();
        held.map(|HeldOne { key, kind, fence, holder }| HeldLock { key, kind, fence, holder: holder.into() })
            .collect()
    }
}

/// What each server said of itself.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Abouts(Vec<String>);

impl From<Abouts> for Vec<ServerInfo> {
    fn from(Abouts(abouts): Abouts) -> Self {
        // What a newer version announces may not be readable; the others still are.
        abouts.iter().filter_map(|about| serde_json::from_str(about).ok()).collect()
    }
}
