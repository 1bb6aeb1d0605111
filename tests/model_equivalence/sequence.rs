//! Random sequences of what servers, operators and other programs do to one key.

use jobs::store::RunOutcome;
use proptest::prelude::*;
use proptest::sample::select;

pub const SERVERS: [&str; 3] = ["alpha", "b\"e\\ta/", "γ-3"];

#[derive(Clone, Debug)]
pub enum Step {
    Claim { server: usize, again: bool, ask: Option<Ask>, ttl: u64 },
    Extend { lease: usize, twist: Twist },
    Release { lease: usize, twist: Twist, outcome: RunOutcome, error: Option<&'static str> },
    Pause(bool),
    Reset,
    LockVanishes,
    LockIsSet { to: Locker, lasts: Option<u64> },
    Wipe,
    Sleep(u64),
}

/// A claim for a tick; all in milliseconds, the tick counted from the start of the sequence.
#[derive(Clone, Debug)]
pub struct Ask {
    pub tick: i64,
    pub delay: u64,
    pub grace: u64,
    pub queue: bool,
    pub takeovers: u32,
}

/// How a holder's message differs from what the holder was told.
#[derive(Clone, Copy, Debug)]
pub enum Twist {
    None,
    UnknownFence,
    /// As if the store's clock had been ahead when the lease was won.
    AFenceFromTheFuture,
    OlderFence,
    AnEarlierUntil,
    ALaterUntil,
    /// As if the store's clock had been ahead when the tick was claimed.
    ATickFromTheFuture,
}

#[derive(Clone, Copy, Debug)]
pub enum Locker {
    Stranger,
    /// A failover may bring back the lock of any lease there was.
    HolderOf(usize),
}

pub fn any() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..24)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => claim(),
        6 => (0..4usize, twist()).prop_map(|(lease, twist)| Step::Extend { lease, twist }),
        6 => release(),
        2 => any_bool().prop_map(Step::Pause),
        1 => Just(Step::Reset),
        2 => Just(Step::LockVanishes),
        2 => (locker(), lasts()).prop_map(|(to, lasts)| Step::LockIsSet { to, lasts }),
        1 => Just(Step::Wipe),
        3 => select(vec![3, 12, 30, 70]).prop_map(Step::Sleep),
    ]
}

fn claim() -> impl Strategy<Value = Step> {
    let ttl = select(vec![0, 5, 15, 40, 5_000, 5_000]);
    (0..SERVERS.len(), prop::bool::weighted(0.3), prop::option::weighted(0.8, ask()), ttl)
        .prop_map(|(server, again, ask, ttl)| Step::Claim { server, again, ask, ttl })
}

fn ask() -> impl Strategy<Value = Ask> {
    let tick = select(vec![-1_000, -30, -30, 0, 0, 0, 40]);
    let delay = select(vec![0, 0, 0, 20]);
    let grace = select(vec![0, 20, 500, 60_000, 60_000]);
    (tick, delay, grace, any_bool(), 0..3u32).prop_map(|(tick, delay, grace, queue, takeovers)| Ask {
        tick,
        delay,
        grace,
        queue,
        takeovers,
    })
}

fn release() -> impl Strategy<Value = Step> {
    let outcome = select(vec![
        RunOutcome::Succeeded,
        RunOutcome::Failed,
        RunOutcome::TimedOut,
        RunOutcome::Panicked,
        RunOutcome::Cancelled,
        RunOutcome::LeaseLost,
        RunOutcome::NotStarted,
    ]);
    let error = select(vec![None, Some(""), Some("it said \"no\"\n\u{1}\u{7f} \\ / ☃ 100 %s")]);
    (0..4usize, twist(), outcome, error).prop_map(|(lease, twist, outcome, error)| Step::Release {
        lease,
        twist,
        outcome,
        error,
    })
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        12 => Just(Twist::None),
        1 => Just(Twist::UnknownFence),
        1 => Just(Twist::AFenceFromTheFuture),
        1 => Just(Twist::OlderFence),
        1 => Just(Twist::AnEarlierUntil),
        1 => Just(Twist::ALaterUntil),
        2 => Just(Twist::ATickFromTheFuture),
    ]
}

fn locker() -> impl Strategy<Value = Locker> {
    prop_oneof![3 => Just(Locker::Stranger), 1 => (0..4usize).prop_map(Locker::HolderOf)]
}

fn lasts() -> impl Strategy<Value = Option<u64>> {
    select(vec![None, Some(10), Some(40), Some(5_000), Some(5_000)])
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::ANY
}
