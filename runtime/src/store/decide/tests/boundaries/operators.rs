//! What operators ask for, at the instants at which pauses, marks and records end.

use super::*;
use crate::fleet::{Forgotten, Pause};
use crate::history::{Skip, Stats};
use crate::store::{Gap, LockChange, PauseOrder, SkipRecord};

const HOUR: u64 = 3600;

fn order() -> PauseOrder {
    PauseOrder { by: "anna".into(), reason: None, lasts: None, all: false }
}

/// A job with a tick at each full hour after the start, that is paused since the first second and until this instant.
fn paused_until(until: Timestamp) -> KeyState {
    let pause = Pause { by: "anna".into(), reason: None, since: at(1), until: Some(until), all: false };
    let stats = Stats { failures_in_row: 3, ..Stats::default() };
    KeyState { pause: Some(pause), stats, registered: Some(registered("0 * * * * UTC")), ..free() }
}

#[test]
fn pause_is_over_at_its_last_instant_and_another_one_begins() {
    let pause = |now| {
        let Decision { reply, change } = decide::pause(&look(now, paused_until(at(100))), &order(), 1);
        let state = change.and_then(|change| change.state).expect("the pause");
        (reply.since, state.stats.failures_in_row)
    };
    assert_eq!(pause(at(100) - MICRO), (at(1), 3));
    assert_eq!(pause(at(100)), (at(100), 0));
}

#[test]
fn resumption_returns_a_pause_that_counts_until_its_last_instant() {
    let resume = |now| {
        let Decision { reply, change } = decide::resume(&look(now, paused_until(at(100))), "anna", false, 1);
        let state = change.and_then(|change| change.state).expect("the pause ends");
        (reply.is_some(), state.registered.as_ref().map(|registered| registered.at))
    };
    assert_eq!(resume(at(100) - MICRO), (true, Some(at(100) - MICRO)));
    assert_eq!(resume(at(100)), (false, Some(at(100))));
    assert_eq!(resume(at(200)), (false, Some(at(100))));
}

#[test]
fn tick_at_the_end_of_a_pause_is_not_decided_by_it() {
    // 1,800,000,000 s are whole hours.
    let decided = |now| {
        let change = decide::resume(&look(now, paused_until(at(9 * HOUR))), "anna", false, 1).change;
        let change = change.expect("the pause ends");
        let state = change.state.expect("a job");
        (state.mark.as_ref().map(|mark| (mark.tick, mark.skip)), state.missed.len(), change.records.len())
    };
    let skipped = Some((at(HOUR), Some(Skip::Paused)));
    assert_eq!(decided(at(HOUR)), (None, 1, 0));
    assert_eq!(decided(at(HOUR) + MICRO), (skipped, 1, 1));
    let resumed = look(at(2 * HOUR), paused_until(at(9 * HOUR)));
    let records = decide::resume(&resumed, "anna", false, 1).change.expect("the pause ends").records;
    let gap = Gap { after: at(0), before: at(2 * HOUR), schedule: Some("0 * * * * UTC".into()) };
    let missed = SkipRecord::new(at(HOUR), Skip::Missed, "anna", at(2 * HOUR));
    assert_eq!(records, [JobRecord::Skip(SkipRecord { missed: Some(gap), ..missed })]);
}

#[test]
fn end_of_a_pause_does_not_decide_a_tick_again() {
    let mark = TickMark { tick: at(HOUR), skip: None, server: "a".into(), at: at(HOUR) };
    let state = |mark| KeyState { mark: Some(mark), ..paused_until(at(9 * HOUR)) };
    let resume = |now| {
        let change = decide::resume(&look(now, state(mark.clone())), "anna", false, 1).change;
        change.and_then(|change| change.state).expect("the pause ends")
    };
    let resumed = resume(at(HOUR));
    assert_eq!((&resumed.mark, resumed.missed.len()), (&Some(mark.clone()), 0));
    assert_eq!(resume(at(HOUR) + MICRO).mark, Some(mark.clone()));
}

#[test]
fn reset_lowers_only_a_mark_that_is_in_the_future() {
    let reset = |tick| {
        let mark = Some(TickMark { tick, skip: None, server: "a".into(), at: at(1) });
        decide::reset(&look(at(100), KeyState { mark, ..free() })).change
    };
    assert_eq!(reset(at(100)), None);
    let state = reset(at(100) + MICRO).and_then(|change| change.state).expect("a lower mark");
    assert_eq!((state.mark.as_ref().map(|mark| mark.tick), state.reset_fence), (Some(at(100)), Some(7)));
}

#[test]
fn job_is_forgotten_once_everything_that_protects_it_is_over() {
    let forget = |now, quiet, state| decide::forget(&look(now, state), quiet).reply;
    let mark = Some(TickMark { tick: at(10), skip: None, server: "a".into(), at: at(10) });
    let marked = || KeyState { mark: mark.clone(), ..free() };
    assert_eq!(forget(at(100), secs(90), marked()), Forgotten::TooRecent(at(10)));
    assert_eq!(forget(at(100) + MICRO, secs(90), marked()), Forgotten::Yes);
    let claimable = || KeyState { claimable_until: Some(at(100)), ..marked() };
    assert_eq!(forget(at(100), secs(1), claimable()), Forgotten::TooRecent(at(10)));
    assert_eq!(forget(at(100) + MICRO, secs(1), claimable()), Forgotten::Yes);
    let broken = || KeyState { broken_until: Some(at(100)), ..marked() };
    assert_eq!(forget(at(100) - MICRO, secs(1), broken()), Forgotten::TooRecent(at(10)));
    assert_eq!(forget(at(100), secs(1), broken()), Forgotten::Yes);
}

#[test]
fn request_is_open_for_its_ttl() {
    let request = decide::request(&look(at(100), free()), "id", "b", secs(60)).reply;
    assert_eq!(request.until, at(160));
}

#[test]
fn broken_lease_is_remembered_for_its_ttl_or_its_rest_and_one_request() {
    let broken_until = |until| {
        let seen = look(at(10), won(&claim_now("a", LONG), until));
        let change = decide::break_lock(&seen, "key", &seen, &"anna".into(), 1).change;
        change.and_then(|change| change.state).expect("the record stays").broken_until
    };
    assert_eq!(broken_until(at(20)), Some(at(45)), "30 s, and 5 s for a request");
    assert_eq!(broken_until(at(60)), Some(at(65)));
}

#[test]
fn operator_does_not_break_a_lock_that_appeared_beside_the_seen_holder() {
    let lock = |token: &str| Some(SharedLock { token: token.into(), until: None });
    let claim = claim_now("a", LONG);
    let shown = |token| Look { lock: lock(token), ..look(at(10), won(&claim, at(100))) };
    let seen = shown(&claim.token);
    let change = |now| {
        let Decision { reply, change } = decide::break_lock(&now, "key", &seen, &"anna".into(), 1);
        assert_eq!(reply.len(), 1);
        change.expect("the lease is broken").lock
    };
    assert_eq!(change(shown(&claim.token)), LockChange::Delete);
    assert_eq!(change(shown("newer")), LockChange::Leave);
}
