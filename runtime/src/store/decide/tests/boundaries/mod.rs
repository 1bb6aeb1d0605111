//! Decisions exactly at an instant, one microsecond before and after it. On looks that are written down, since no store waits
//! for an instant so exactly.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap};

use super::START;
use crate::Timestamp;
use crate::history::RunOutcome;
use crate::store::decide::{self, Decision};
use crate::store::{
    Change, Claim, ClaimDecision, ClaimPurpose, ClaimReply, DoneMark, Ending, JobRecord, JobRecords,
    KeyState, Lease, Look, RegisteredSchedule, RunRecord, RunRequest, SharedLock, StartedTick, TickClaim,
    TickMark, Version,
};
use crate::testing::store::bench::{LONG, ask, claim_now, claim_requested, claim_what, claim_with};

mod leases;
mod operators;
mod slots;

const MICRO: Duration = Duration::from_micros(1);

fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn look(now: Timestamp, state: KeyState) -> Look {
    let version = Some(Version { at: START, nonce: 1 });
    Look { now, version, fence: 7, state: Arc::new(state), lock: None, finished: None }
}

/// The state of a job that nothing holds.
fn free() -> KeyState {
    KeyState { expires: None, ..KeyState::default() }
}

fn registered(schedule: &str) -> RegisteredSchedule {
    RegisteredSchedule {
        schedule: schedule.into(),
        at: at(0),
        server: "old".into(),
        begun: at(0),
        used: at(0),
        runs_missed_since: None,
    }
}

fn tick_claim(change: impl FnOnce(&mut TickClaim)) -> Claim {
    let mut ask = ask(at(100));
    change(&mut ask);
    claim_with("a", LONG, ask)
}

fn decide(look: &Look, claim: &Claim) -> (ClaimReply, Option<Change>) {
    let Decision { reply, change } = decide::claim(look, claim);
    (reply, change)
}

fn decision(look: &Look, claim: &Claim) -> ClaimDecision {
    decide(look, claim).0.decision
}

fn is_won(decision: &ClaimDecision) -> bool {
    matches!(decision, ClaimDecision::Won(_))
}

#[test]
fn grace_ends_after_its_last_microsecond() {
    let claim = tick_claim(|ask| (ask.delay, ask.grace) = (secs(10), secs(5)));
    assert!(is_won(&decision(&look(at(115), free()), &claim)));
    let late = decision(&look(at(115) + MICRO, free()), &claim);
    assert_eq!(late, ClaimDecision::Late(secs(5) + MICRO));
}

#[test]
fn takeover_of_a_tick_that_the_store_lost_is_late_by_the_time_since_it_was_due() {
    let claim = tick_claim(|ask| (ask.delay, ask.only_takes_over) = (secs(10), true));
    assert_eq!(decision(&look(at(130), free()), &claim), ClaimDecision::Late(secs(20)));
}

#[test]
fn missed_tick_runs_only_if_the_policy_is_older_than_the_tick() {
    let claim = tick_claim(|ask| (ask.missed, ask.grace) = (Missed::RunOnce, secs(1)));
    let since = |since| {
        let registered =
            RegisteredSchedule { runs_missed_since: Some(since), ..registered(&ask(at(0)).schedule) };
        decision(&look(at(200), KeyState { registered: Some(registered), ..free() }), &claim)
    };
    assert!(is_won(&since(at(100) - MICRO)));
    assert!(matches!(since(at(100)), ClaimDecision::Late(_)));
}

#[test]
fn done_mark_counts_until_its_last_microsecond() {
    let done = |now| {
        let done = Some(DoneMark { at: at(1), until: at(100) });
        decision(&look(now, KeyState { done, ..free() }), &claim_what("a", LONG, ClaimPurpose::Once))
    };
    assert_eq!(done(at(100) - MICRO), ClaimDecision::Done(at(1)));
    assert!(is_won(&done(at(100))));
}

#[test]
fn request_is_open_until_its_last_microsecond() {
    let requested = |now| {
        let request = RunRequest { id: "id".to_owned(), by: "b".to_owned(), until: at(100), answer: None };
        decision(&look(now, KeyState { request: Some(request), ..free() }), &claim_requested("a", "id"))
    };
    assert!(is_won(&requested(at(100) - MICRO)));
    assert_eq!(requested(at(100)), ClaimDecision::NotRequested);
}

/// A claim that has won, and the state that it left.
fn won(claim: &Claim, until: Timestamp) -> KeyState {
    KeyState { claimant: Some(Lease::claimed(claim, at(0), until)), ..free() }
}

#[test]
fn repeated_claim_is_confirmed_by_a_swap_within_its_lease() {
    let claim = claim_now("a", LONG);
    let (reply, change) = decide(&look(at(10), won(&claim, at(10) + 2 * MICRO)), &claim);
    assert!(is_won(&reply.decision));
    let change = change.expect("a look alone does not confirm it");
    assert!(change.grants_lease);
    assert_eq!((change.not_before, change.not_after), (Some(at(10)), Some(at(10) + MICRO)));
}

#[test]
fn repeated_claim_has_lost_if_another_program_holds_the_lock() {
    let claim = claim_now("a", LONG);
    let lock = |token: &Arc<str>| Some(SharedLock { token: token.clone(), until: None });
    let seen = |lock| Look { lock, ..look(at(10), won(&claim, at(20))) };
    assert!(is_won(&decision(&seen(lock(&claim.token)), &claim)));
    assert_eq!(decision(&seen(lock(&"foreign".into())), &claim), ClaimDecision::Lost);
}

#[test]
fn tick_that_was_started_is_claimable_until_its_delay_and_its_grace_are_over() {
    let claim = tick_claim(|ask| (ask.delay, ask.grace) = (secs(10), secs(5)));
    let (_, change) = decide(&look(at(112), free()), &claim);
    let state = change.and_then(|change| change.state).expect("it is won");
    assert_eq!(state.claimable_until, Some(at(115)));
}

#[test]
fn tick_of_another_schedule_at_the_same_instant_was_not_missed() {
    // The server that claims is older than the registered schedule, and moves the same mark. 1,800,000,000 s are whole minutes.
    let missed = |tick: Timestamp| {
        let claim = claim_with("a", LONG, TickClaim { schedule: "1m UTC".into(), ..ask(tick) });
        let registered = RegisteredSchedule { used: tick, ..registered("* * * * * UTC") };
        let (_, change) = decide(&look(tick, KeyState { registered: Some(registered), ..free() }), &claim);
        change.and_then(|change| change.state).expect("it is won").missed.len()
    };
    assert_eq!((missed(at(60)), missed(at(60) + MICRO)), (0, 1));
}

#[test]
fn last_attempt_that_can_be_counted_is_not_taken_over() {
    let unfinished = |attempt| {
        let started = StartedTick { tick: at(50), attempt, finished: false, takeovers: u32::MAX };
        let mark = TickMark { tick: at(100), skip: None, server: "b".into(), at: at(100) };
        let state = KeyState { started: Some(started), mark: Some(mark), ..free() };
        decide(&look(at(101), state), &tick_claim(|ask| ask.takeovers = u32::MAX)).0.unfinished
    };
    assert!(unfinished(u32::MAX - 1).is_some());
    assert_eq!(unfinished(u32::MAX), None);
}

#[test]
fn registration_of_a_clock_that_was_ahead_counts_from_now() {
    let ahead = || RegisteredSchedule { begun: at(5000), used: at(6000), ..registered("0 3 * * * UTC") };
    let state = KeyState { registered: Some(ahead()), ..free() };
    let other =
        decide(&look(at(101), state), &tick_claim(|_| ())).0.other_schedule.expect("another schedule");
    assert_eq!((other.begun, other.used), (at(101), at(101)));
    let same = RegisteredSchedule { schedule: ask(at(0)).schedule, ..ahead() };
    let holder = won(&claim_now("b", LONG), at(1000));
    let state = KeyState { registered: Some(same), ..holder };
    let (reply, change) = decide(&look(at(101), state), &tick_claim(|ask| ask.overlap = Overlap::Queue));
    assert!(matches!(reply.decision, ClaimDecision::Held(_)));
    let written = change.and_then(|change| change.state).and_then(|state| state.registered.clone());
    assert_eq!(written.map(|known| (known.begun, known.used)), Some((at(101), at(101))));
}

#[test]
fn schedule_is_replaced_by_a_server_that_began_later_or_when_no_server_follows_it() {
    const HOUR: u64 = 3600;
    let replaces = |now: Timestamp, known_for: Duration, used: Timestamp| {
        let known = RegisteredSchedule { begun: at(HOUR), used, ..registered("0 3 * * * UTC") };
        let claim = claim_with("a", LONG, TickClaim { known_for, ..ask(now) });
        let (reply, change) = decide(&look(now, KeyState { registered: Some(known), ..free() }), &claim);
        let written = change.and_then(|change| change.state).and_then(|state| state.registered.clone());
        assert!(reply.other_schedule.is_some());
        written.is_some_and(|written| &*written.server == "a")
    };
    let now = at(3 * HOUR);
    assert!(!replaces(now, secs(2 * HOUR), now), "both began at the same instant");
    assert!(replaces(now, Duration::from_micros(2 * HOUR * 1_000_000 - 1), now));
    assert!(!replaces(now, secs(3 * HOUR), at(2 * HOUR)), "followed an hour ago");
    assert!(replaces(now, secs(3 * HOUR), at(2 * HOUR) - MICRO));
}

#[test]
fn crashed_run_is_shown_once_among_other_runs() {
    let claim = claim_now("a", LONG);
    let state = won(&claim, at(10));
    let record = |fence| {
        let lease = Lease { fence, ..Lease::claimed(&claim, at(0), at(10)) };
        RunRecord::of(&lease, at(10), &Ending::of(RunOutcome::Crashed, 1))
    };
    let shown = |now, fence| {
        let records = JobRecords { runs: vec![record(fence)], skips: Vec::new() };
        decide::history(&look(now, state.clone()), records).runs.len()
    };
    // The fence of the look is 7.
    assert_eq!((shown(at(10), 6), shown(at(10), 7), shown(at(10) - MICRO, 6)), (2, 1, 1));
    let (_, change) = decide(&look(at(10), state.clone()), &claim_now("b", LONG));
    let records = change.expect("it is won").records;
    assert!(matches!(&records[..], [JobRecord::Run(run)] if run.fence == 7), "{records:?}");
}
