//! Generates random sequences.

use proptest::prelude::*;
use proptest::sample::select;

use super::sequence::{
    ClaimPlan, EndPlan, LeaseChange, LeaseLength, LockOwner, REQUESTS, SERVERS, Step, TickPlan, WORDS,
};
use crate::history::RunOutcome;

/// Half of the sequences are about a job, the others about a key without one: its record is deleted again and again.
pub(super) fn any() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![prop::collection::vec(step(true), 1..32), prop::collection::vec(step(false), 1..32)]
}

fn step(of_a_job: bool) -> impl Strategy<Value = Step> {
    let of_a_job_only = prop_oneof![prop::bool::weighted(0.4).prop_map(Step::Pause), request()].boxed();
    let of_any_key = prop_oneof![
        14 => claim(of_a_job),
        6 => (newest_first(), change(), progress(), any_bool())
            .prop_map(|(lease, change, progress, reported)| Step::Extend { lease, change, progress, reported }),
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
    (newest_first(), change(), progress(), end).prop_map(|(lease, change, progress, end)| Step::Release {
        lease,
        change,
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

fn change() -> impl Strategy<Value = LeaseChange> {
    prop_oneof![
        14 => Just(LeaseChange::None),
        1 => Just(LeaseChange::UnknownFence),
        1 => Just(LeaseChange::FenceFromTheFuture),
        1 => Just(LeaseChange::OlderFence),
        1 => Just(LeaseChange::EarlierUntil),
        2 => Just(LeaseChange::ShorterTtl),
        1 => Just(LeaseChange::LaterUntil),
        2 => Just(LeaseChange::TickFromTheFuture),
        1 => Just(LeaseChange::SinceFromTheFuture),
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
