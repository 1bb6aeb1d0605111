//! Random sequences of what servers, operators and other programs do to one key.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

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
        twist: Distortion,
        progress: Option<u64>,
        reported: bool,
    },
    Release {
        lease: usize,
        twist: Distortion,
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
pub(super) enum Distortion {
    None,
    UnknownFence,
    /// As if the store's clock had been ahead when the lease was won.
    AFenceFromTheFuture,
    OlderFence,
    AnEarlierUntil,
    /// As of a late copy, sent before the holder chose another.
    AShorterTtl,
    ALaterUntil,
    /// As if the store's clock had been ahead when the tick was claimed.
    ATickFromTheFuture,
    /// As if the store's clock had gone back since the lease was won.
    ASinceFromTheFuture,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LockOwner {
    Foreign,
    /// A failover may bring back the lock of any lease there was.
    HolderOf(usize),
}

/// Half of the sequences are about a job, the others about a key without one: its record is deleted again and again.
pub(super) fn any() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![prop::collection::vec(step(true), 1..32), prop::collection::vec(step(false), 1..32)]
}

fn step(of_a_job: bool) -> impl Strategy<Value = Step> {
    let of_a_job_only = prop_oneof![prop::bool::weighted(0.4).prop_map(Step::Pause), request()].boxed();
    let of_any_key = prop_oneof![
        14 => claim(of_a_job),
        6 => (newest_first(), twist(), progress(), any_bool())
            .prop_map(|(lease, twist, progress, reported)| Step::Extend { lease, twist, progress, reported }),
        8 => release(),
        1 => Just(Step::Reset),
        1 => select(vec![0, 5, 30, 60_000]).prop_map(|quiet| Step::Forget { quiet }),
        1 => remember().prop_map(|remember| Step::Break { remember }),
        1 => Just(Step::Cancel),
        2 => (0..6usize).prop_map(Step::Copy),
        2 => Just(Step::LockVanishes),
        2 => (locker(), lasts()).prop_map(|(to, lasts)| Step::LockIsSet { to, lasts }),
        1 => Just(Step::Wipe),
        1 => select(vec![1, 3, 12]).prop_map(Step::Sleep),
        1 => Just(Step::Outlive),
    ]
    .boxed();
    if of_a_job { prop_oneof![4 => of_a_job_only, 40 => of_any_key].boxed() } else { of_any_key }
}

fn claim(of_a_job: bool) -> impl Strategy<Value = Step> {
    let manual = prop_oneof![
        Just(ClaimPlan::Lock),
        Just(ClaimPlan::Once),
        Just(ClaimPlan::Leader),
        (1..4u32).prop_map(ClaimPlan::Slot),
        (1..4u32).prop_map(ClaimPlan::Slot),
    ]
    .boxed();
    let wants = prop_oneof![
        6 => ask().prop_map(ClaimPlan::Tick),
        2 => Just(ClaimPlan::Now),
        2 => (0..REQUESTS.len()).prop_map(ClaimPlan::Requested),
        2 => manual.clone(),
    ];
    let wants = if of_a_job { wants.boxed() } else { manual };
    let ttl = select(vec![LeaseLength::Short, LeaseLength::Long, LeaseLength::Long]);
    let again_and_lost = (prop::bool::weighted(0.3), prop::bool::weighted(0.15));
    (0..SERVERS.len(), again_and_lost, wants, ttl, remember()).prop_map(
        |(server, (again, lost), wants, ttl, remember)| Step::Claim {
            server,
            again,
            lost,
            wants,
            ttl,
            remember,
        },
    )
}

fn ask() -> impl Strategy<Value = TickPlan> {
    let tick = select(vec![-1_000, -30, -30, 0, 0, 0, 10, 40]);
    let delay = select(vec![0, 0, 0, 20]);
    let grace = select(vec![0, 20, 500, 60_000, 60_000]);
    let known_for = select(vec![0, 20, 60, 60_000, 60_000]);
    let previous = select(vec![None, None, Some(5), Some(60_000)]);
    let switches = (any_bool(), any_bool(), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (tick, previous, delay, grace, 0..3u32, switches, known_for).prop_map(
        |(
            tick,
            previous,
            delay,
            grace,
            takeovers,
            (queue, run_once, other_schedule, only_takes_over),
            known_for,
        )| TickPlan {
            tick,
            previous: previous.map(|before| tick - before),
            only_takes_over,
            delay,
            grace,
            queue,
            takeovers,
            run_once,
            schedule: usize::from(other_schedule),
            known_for,
        },
    )
}

fn release() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        6 => Just(RunOutcome::Succeeded),
        1 => Just(RunOutcome::Failed),
        1 => Just(RunOutcome::TimedOut),
        1 => Just(RunOutcome::Panicked),
        1 => Just(RunOutcome::Cancelled),
        1 => Just(RunOutcome::LeaseLost),
        2 => Just(RunOutcome::NotStarted),
    ];
    let error = prop::option::of(select(WORDS.to_vec()));
    let done_for = select(vec![None, None, Some(0), Some(20), Some(60_000)]);
    let end = (outcome, error, 0..3u32, remember(), done_for).prop_map(
        |(outcome, error, failed_tries, remember, done_for)| EndPlan {
            outcome,
            error,
            failed_tries,
            remember,
            done_for,
        },
    );
    (newest_first(), twist(), progress(), end).prop_map(|(lease, twist, progress, end)| Step::Release {
        lease,
        twist,
        progress,
        end,
    })
}

fn request() -> impl Strategy<Value = Step> {
    let ttl = select(vec![0, 20, 5_000, 5_000]);
    (0..REQUESTS.len(), 0..SERVERS.len(), ttl).prop_map(|(id, by, ttl)| Step::Request { id, by, ttl })
}

fn newest_first() -> impl Strategy<Value = usize> {
    select(vec![0, 0, 0, 1, 2, 3])
}

fn progress() -> impl Strategy<Value = Option<u64>> {
    select(vec![None, Some(0), Some(7), Some(u64::MAX)])
}

fn remember() -> impl Strategy<Value = usize> {
    select(vec![0, 1, 2, 3, 3, 100])
}

fn twist() -> impl Strategy<Value = Distortion> {
    prop_oneof![
        14 => Just(Distortion::None),
        1 => Just(Distortion::UnknownFence),
        1 => Just(Distortion::AFenceFromTheFuture),
        1 => Just(Distortion::OlderFence),
        1 => Just(Distortion::AnEarlierUntil),
        2 => Just(Distortion::AShorterTtl),
        1 => Just(Distortion::ALaterUntil),
        2 => Just(Distortion::ATickFromTheFuture),
        1 => Just(Distortion::ASinceFromTheFuture),
    ]
}

fn locker() -> impl Strategy<Value = LockOwner> {
    prop_oneof![3 => Just(LockOwner::Foreign), 1 => (0..4usize).prop_map(LockOwner::HolderOf)]
}

fn lasts() -> impl Strategy<Value = Option<u64>> {
    select(vec![None, Some(10), Some(40), Some(5_000), Some(5_000)])
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::ANY
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
        remember: end.remember,
        done_for: end.done_for.map(Duration::from_millis),
    }
}

pub(super) fn progress_of(done: u64) -> Progress {
    Progress { done, total: u64::MAX, status: WORDS[usize::from(done > 0)].to_owned() }
}

pub(super) fn twisted(lease: Lease, twist: Distortion, start: Timestamp) -> Lease {
    match twist {
        Distortion::None => lease,
        Distortion::UnknownFence => Lease { fence: decide::UNKNOWN_FENCE, ..lease },
        Distortion::AFenceFromTheFuture => Lease { fence: lease.fence + 3_600_000_000, ..lease },
        Distortion::OlderFence => Lease { fence: lease.fence - 1, ..lease },
        Distortion::AShorterTtl => Lease { ttl: Duration::from_millis(20), until: lease.since, ..lease },
        Distortion::AnEarlierUntil => Lease { until: lease.since, ..lease },
        Distortion::ALaterUntil => Lease { until: lease.until.plus(Duration::from_secs(10)), ..lease },
        Distortion::ATickFromTheFuture => {
            Lease { tick: Some(start.plus(Duration::from_millis(60))), ..lease }
        }
        Distortion::ASinceFromTheFuture => {
            Lease { since: lease.since.plus(Duration::from_secs(10)), ..lease }
        }
    }
}
