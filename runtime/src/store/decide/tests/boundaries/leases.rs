//! Extensions and releases, at the instants at which leases, records and locks end.

use super::super::LOST;
use super::*;
use crate::store::{ExtendReply, FenceChange, Gap, ReleaseReply};

/// The lease of a claim that won with this fence. The fence of every look is 7.
fn lease(claim: &Claim, fence: i64, until: Timestamp) -> Lease {
    Lease { fence, ..Lease::claimed(claim, at(0), until) }
}

#[test]
fn lease_is_extended_until_its_last_microsecond_and_no_later() {
    let claim = claim_now("a", LONG);
    let extend = |now| decide::extend(&look(now, won(&claim, at(100))), &lease(&claim, 7, at(100)));
    let now = at(100) - MICRO;
    let Decision { reply, change } = extend(now);
    assert!(matches!(reply, ExtendReply::Kept { .. }));
    let change = change.expect("a new expiry");
    assert_eq!((change.not_before, change.not_after), (Some(now), Some(now)));
    assert_eq!(extend(at(100)).reply, LOST);
}

#[test]
fn lease_that_the_store_lost_is_restored_until_its_last_microsecond() {
    let claim = claim_now("a", LONG);
    let extend = |now, fence| decide::extend(&look(now, free()), &lease(&claim, fence, at(100)));
    let now = at(100) - MICRO;
    let Decision { reply, change } = extend(now, 8);
    let ExtendReply::Restored(until) = reply else { panic!("{reply:?}") };
    let change = change.expect("the lease");
    assert_eq!((change.not_before, change.not_after), (Some(now), Some(now)));
    let restored = change.state.and_then(|state| state.claimant.clone());
    assert_eq!((until, restored.map(|lease| lease.until)), (at(130), Some(at(130))));
    assert_eq!(extend(at(100), 8).reply, LOST);
    assert_eq!(extend(now, 7).reply, LOST, "the record is as new as the lease");
}

#[test]
fn record_of_a_manual_lock_is_deleted_at_the_instant_from_which_nothing_in_it_counts() {
    let claim = claim_what("a", LONG, ClaimPurpose::Lock);
    let is_kept = |done_until, broken_until| {
        let done = Some(DoneMark { at: at(1), until: done_until });
        let locked = won(&claim, at(500));
        let state = KeyState { expires: Some(at(900)), done, broken_until: Some(broken_until), ..locked };
        let end = Ending::of(RunOutcome::Succeeded, 1);
        let Decision { reply, change } =
            decide::release(&look(at(100), state), &lease(&claim, 7, at(500)), &end);
        assert_eq!(reply, ReleaseReply::Released);
        change.expect("it is released").state.is_some()
    };
    assert!(!is_kept(at(100), at(100)));
    assert!(is_kept(at(100) + MICRO, at(100)) && is_kept(at(100), at(100) + MICRO));
}

#[test]
fn record_and_lock_count_until_the_instant_at_which_they_expire() {
    let is_free = |state, lock_until| {
        let lock = Some(SharedLock { token: "foreign".into(), until: Some(lock_until) });
        is_won(&decision(&Look { lock, ..look(at(100), state) }, &claim_now("b", LONG)))
    };
    assert!(is_free(free(), at(100)) && !is_free(free(), at(100) + MICRO));
    let locked = |expires| {
        let claim = claim_what("a", LONG, ClaimPurpose::Lock);
        KeyState { expires: Some(expires), ..won(&claim, at(500)) }
    };
    assert!(is_free(locked(at(100)), at(100)) && !is_free(locked(at(100) + MICRO), at(100)));
}

#[test]
fn release_of_an_older_lease_raises_the_mark_only_to_a_later_tick() {
    let released = |tick, reset_fence| {
        let mark = Some(TickMark { tick: at(100), skip: None, server: "b".into(), at: at(100) });
        let late = lease(&claim_with("a", LONG, ask(tick)), 5, at(500));
        let state = KeyState { mark, reset_fence, ..won(&claim_now("b", LONG), at(500)) };
        decide::release(&look(at(200), state), &late, &Ending::of(RunOutcome::Succeeded, 1)).change
    };
    assert_eq!(released(at(100), None), None);
    assert!(released(at(100) + MICRO, None).is_some());
    assert_eq!(released(at(100) + MICRO, Some(5)), None, "an operator has reset it since");
    assert!(released(at(100) + MICRO, Some(4)).is_some());
}

#[test]
fn gap_is_forgotten_once_ticks_up_to_its_end_were_reported() {
    let claim = claim_now("a", LONG);
    let left = |reported| {
        let missed = vec![Gap { after: at(1), before: at(50), schedule: None }];
        let reported = Lease { reported: Some(reported), ..lease(&claim, 7, at(500)) };
        let state = KeyState { missed, ..won(&claim, at(500)) };
        let change = decide::extend(&look(at(100), state), &reported).change;
        change.and_then(|change| change.state).expect("a new expiry").missed.len()
    };
    assert_eq!((left(at(50) - MICRO), left(at(50))), (1, 0));
}

#[test]
fn restored_lease_is_written_without_its_fence_and_its_reports() {
    let held = Lease { reported: Some(at(5)), ..lease(&claim_now("a", LONG), 8, at(100)) };
    let change = decide::extend(&look(at(10), free()), &held).change.expect("the lease");
    assert_eq!(change.fence, FenceChange::AtLeast(8), "it is that of the record");
    let restored = change.state.and_then(|state| state.claimant.clone()).expect("the lease");
    assert_eq!(restored, Lease { fence: decide::UNKNOWN_FENCE, until: at(40), reported: None, ..held });
}
