//! Random sequences of what servers, operators and other programs do to one key.

use std::time::Duration;

use crate::Timestamp;
use crate::history::{FailedTry, Progress, RunOutcome};
use crate::schedule::{Missed, Overlap};
use crate::store::{ClaimPurpose, Ending, Lease, TickClaim, decide};

pub(super) const SERVERS: [&str; 3] = ["alpha", "b\"e\\ta/", "γ-3"];
pub(super) const SCHEDULES: [&str; 2] = ["0 3 * * * UTC", "*/5 \"3\" \\ ☃"];
pub(super) const REQUESTS: [&str; 2] = ["first", "s\"e\\cond ☃"];
/// What runs and their errors say.
pub(super) const WORDS: [&str; 2] = ["", "it said \"no\"\n\u{1}\u{7f} \\ / ☃ 100 %s"];

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Of a lost answer the server learns nothing.
    Claim {
        server: usize,
        again: bool,
        lost: bool,
        wants: ClaimPlan,
        ttl: LeaseLength,
        remember: usize,
    },
    Extend {
        lease: usize,
        change: LeaseChange,
        progress: Option<u64>,
        reported: bool,
    },
    Release {
        lease: usize,
        change: LeaseChange,
        progress: Option<u64>,
        end: EndPlan,
    },
    Pause(bool),
    Reset,
    Forget {
        quiet: u64,
    },
    Break {
        remember: usize,
    },
    Cancel,
    Request {
        id: usize,
        by: usize,
        ttl: u64,
    },
    /// A late copy of a swap.
    Copy(usize),
    LockVanishes,
    LockIsSet {
        to: LockOwner,
        lasts: Option<u64>,
    },
    Wipe,
    Sleep(u64),
    /// Waits until the newest lease has ended, if it is a short one.
    Outlive,
}

#[derive(Clone, Debug)]
pub(super) enum ClaimPlan {
    Tick(TickPlan),
    Now,
    /// A manual run that was requested, or was not.
    Requested(usize),
    Lock,
    Once,
    Leader,
    /// One of so many.
    Slot(u32),
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseLength {
    /// As short as the store can be expected to write a claim in time: within a sixth of it.
    Short,
    /// Longer than a sequence.
    Long,
}

/// A claim for a tick; all in milliseconds, the tick counted from the start of the sequence.
#[derive(Clone, Debug)]
pub(super) struct TickPlan {
    pub(super) tick: i64,
    pub(super) previous: Option<i64>,
    pub(super) only_takes_over: bool,
    pub(super) delay: u64,
    pub(super) grace: u64,
    pub(super) queue: bool,
    pub(super) takeovers: u32,
    pub(super) run_once: bool,
    pub(super) schedule: usize,
    pub(super) known_for: u64,
}

#[derive(Clone, Debug)]
pub(super) struct EndPlan {
    pub(super) outcome: RunOutcome,
    pub(super) error: Option<&'static str>,
    pub(super) failed_tries: u32,
    pub(super) remember: usize,
    pub(super) done_for: Option<u64>,
}

/// How a holder's message differs from what the holder knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseChange {
    None,
    UnknownFence,
    /// As if the store's clock had been ahead when the lease was won.
    FenceFromTheFuture,
    OlderFence,
    EarlierUntil,
    /// As of a late copy, sent before the holder chose another.
    ShorterTtl,
    LaterUntil,
    /// As if the store's clock had been ahead when the tick was claimed.
    TickFromTheFuture,
    /// As if the store's clock had gone back since the lease was won.
    SinceFromTheFuture,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LockOwner {
    Foreign,
    /// A failover may bring back the lock of any lease there was.
    HolderOf(usize),
}

pub(super) fn what(start: Timestamp, wants: &ClaimPlan) -> ClaimPurpose {
    match wants {
        ClaimPlan::Tick(ask) => ClaimPurpose::Tick(tick_claim(start, ask)),
        ClaimPlan::Now => ClaimPurpose::Now,
        ClaimPlan::Requested(id) => ClaimPurpose::Requested(REQUESTS[*id].into()),
        ClaimPlan::Lock => ClaimPurpose::Lock,
        ClaimPlan::Once => ClaimPurpose::Once,
        ClaimPlan::Leader => ClaimPurpose::Leader,
        ClaimPlan::Slot(of) => ClaimPurpose::Slot(*of),
    }
}

fn tick_claim(start: Timestamp, ask: &TickPlan) -> TickClaim {
    let instant = |millis: i64| Timestamp::from_micros(start.as_micros() + millis * 1_000);
    TickClaim {
        tick: instant(ask.tick),
        previous: ask.previous.map(instant),
        only_takes_over: ask.only_takes_over,
        delay: Duration::from_millis(ask.delay),
        grace: Duration::from_millis(ask.grace),
        overlap: if ask.queue { Overlap::Queue } else { Overlap::Skip },
        takeovers: ask.takeovers,
        missed: if ask.run_once { Missed::RunOnce } else { Missed::Skip },
        schedule: SCHEDULES[ask.schedule].into(),
        known_for: Duration::from_millis(ask.known_for),
    }
}

pub(super) fn ending(start: Timestamp, end: &EndPlan) -> Ending {
    let failed_try = |number| FailedTry { number, at: start, error: WORDS[1].repeat(2) };
    Ending {
        outcome: end.outcome,
        error: end.error.map(str::to_owned),
        failed_tries: (1..=end.failed_tries).map(failed_try).collect(),
        log: end.error.map(str::to_owned),
        remember: end.remember,
        done_for: end.done_for.map(Duration::from_millis),
        finish_called: false,
    }
}

pub(super) fn progress_of(done: u64) -> Progress {
    Progress { done, total: u64::MAX, status: WORDS[usize::from(done > 0)].to_owned() }
}

pub(super) fn changed(lease: Lease, change: LeaseChange, start: Timestamp) -> Lease {
    match change {
        LeaseChange::None => lease,
        LeaseChange::UnknownFence => Lease { fence: decide::UNKNOWN_FENCE, ..lease },
        LeaseChange::FenceFromTheFuture => Lease { fence: lease.fence + 3_600_000_000, ..lease },
        LeaseChange::OlderFence => Lease { fence: lease.fence - 1, ..lease },
        LeaseChange::ShorterTtl => Lease { ttl: Duration::from_millis(20), until: lease.since, ..lease },
        LeaseChange::EarlierUntil => Lease { until: lease.since, ..lease },
        LeaseChange::LaterUntil => Lease { until: lease.until + Duration::from_secs(10), ..lease },
        LeaseChange::TickFromTheFuture => Lease { tick: Some(start + Duration::from_millis(60)), ..lease },
        LeaseChange::SinceFromTheFuture => Lease { since: lease.since + Duration::from_secs(10), ..lease },
    }
}
