//! Slots of a semaphore, at the instants at which they end.

use super::super::LOST;
use super::*;
use crate::history::Progress;
use crate::store::{ExtendReply, LeaseKind, ReleaseReply};

fn claim_slot(server: &str) -> Claim {
    claim_what(server, LONG, ClaimPurpose::Slot(1))
}

/// A slot that is held since the start.
fn slot(claim: &Claim, fence: i64, until: Timestamp) -> Lease {
    Lease { fence, ..Lease::claimed(claim, at(0), until) }
}

fn semaphore(slots: Vec<Lease>) -> KeyState {
    KeyState { slots, slots_since: at(0), expires: Some(at(9000)), ..KeyState::default() }
}

#[test]
fn slot_is_free_at_the_instant_of_its_expiry_and_no_longer_listed() {
    let held = || semaphore(vec![slot(&claim_slot("a"), 5, at(100))]);
    let claim = claim_slot("b");
    assert!(matches!(decision(&look(at(100) - MICRO, held()), &claim), ClaimDecision::Held(_)));
    let (reply, change) = decide(&look(at(100), held()), &claim);
    assert!(is_won(&reply.decision));
    let change = change.expect("a slot");
    assert!(change.grants_lease);
    let state = change.state.expect("a record");
    assert_eq!(state.slots.iter().map(|slot| &*slot.server).collect::<Vec<_>>(), ["b"]);
    assert_eq!((state.slots_since, state.expires), (at(0), Some(at(9000))), "it is not the first slot");
}

#[test]
fn slot_whose_expiry_has_passed_is_extended_only_while_there_is_room() {
    // Its holder knows of an extension that the store has lost.
    let own = claim_slot("a");
    let extend = |now| {
        let state = semaphore(vec![slot(&own, 5, at(100)), slot(&claim_slot("b"), 7, at(200))]);
        decide::extend(&look(now, state), &slot(&own, 5, at(150)))
    };
    let Decision { reply, change } = extend(at(100) - MICRO);
    assert!(matches!(reply, ExtendReply::Kept { .. }));
    let change = change.expect("a new expiry");
    assert_eq!((change.not_before, change.not_after), (Some(at(100) - MICRO), Some(at(150) - MICRO)));
    assert_eq!(extend(at(100)).reply, LOST);
}

#[test]
fn slot_is_extended_until_its_last_microsecond() {
    let own = claim_slot("a");
    let extend = |now| {
        let own = slot(&own, 7, at(100));
        decide::extend(&look(now, semaphore(vec![own.clone()])), &own).reply
    };
    assert!(matches!(extend(at(100) - MICRO), ExtendReply::Kept { .. }));
    assert_eq!(extend(at(100)), LOST);
}

#[test]
fn slot_was_lost_by_the_store_if_it_is_newer_than_the_fence_or_older_than_the_record() {
    let extend = |fence, since| {
        let lease =
            Lease { since, kind: LeaseKind::Slot { of: 1 }, ..slot(&claim_slot("a"), fence, at(500)) };
        let state = KeyState { slots_since: at(50), ..semaphore(Vec::new()) };
        decide::extend(&look(at(100), state), &lease).reply
    };
    assert_eq!(extend(7, at(50)), LOST, "released or broken");
    assert!(matches!(extend(8, at(50)), ExtendReply::Restored(_)));
    assert!(matches!(extend(7, at(50) - MICRO), ExtendReply::Restored(_)));
}

#[test]
fn operator_breaks_the_slots_that_were_seen() {
    let held = semaphore(vec![slot(&claim_slot("a"), 5, at(40)), slot(&claim_slot("b"), 7, at(50))]);
    let seen = Look { fence: 5, ..look(at(10), held.clone()) };
    let Decision { reply, change } = decide::break_lock(&look(at(10), held), "key", &seen, &"anna".into(), 1);
    assert_eq!(reply.iter().map(|held| held.fence).collect::<Vec<_>>(), [Some(5)]);
    let state = change.and_then(|change| change.state).expect("a slot is left");
    assert_eq!(state.slots.iter().map(|slot| &*slot.server).collect::<Vec<_>>(), ["b"]);
    assert_eq!(state.broken_until, Some(at(55)), "the last expiry, and 5 s for a request");
    assert_eq!(state.slots_since, Timestamp::default());
}

#[test]
fn slot_is_extended_only_by_the_token_and_the_fence_that_won_it() {
    let own = claim_slot("a");
    let extend = |held: &Claim, fence| {
        let state = semaphore(vec![slot(held, 7, at(100))]);
        decide::extend(&look(at(10), state), &slot(&own, fence, at(100))).reply
    };
    assert!(matches!(extend(&own, 7), ExtendReply::Kept { .. }));
    assert_eq!((extend(&own, 5), extend(&claim_slot("b"), 7)), (LOST, LOST));
}

#[test]
fn slot_is_released_only_by_the_token_and_the_fence_that_won_it() {
    let own = claim_slot("a");
    let release = |held: &Claim, fence| {
        let state = semaphore(vec![slot(held, 7, at(100))]);
        let end = Ending::of(RunOutcome::Succeeded, 1);
        decide::release(&look(at(10), state), &slot(&own, fence, at(100)), &end).reply
    };
    assert_eq!(release(&own, 7), ReleaseReply::Released);
    assert_eq!(release(&own, 5), ReleaseReply::NotHeld);
    assert_eq!(release(&claim_slot("b"), 7), ReleaseReply::NotHeld);
}

#[test]
fn record_of_slots_begins_with_the_first_slot_of_a_store_that_knows_no_fence() {
    let since = |fence| {
        let state = KeyState { slots_since: at(5), ..semaphore(Vec::new()) };
        let (_, change) = decide(&Look { fence, ..look(at(100), state) }, &claim_slot("a"));
        change.and_then(|change| change.state).expect("a slot").slots_since
    };
    assert_eq!((since(0), since(7)), (at(100), at(5)));
}

#[test]
fn progress_and_reports_of_a_slots_holder_are_not_kept() {
    let own = slot(&claim_slot("a"), 7, at(100));
    let reporting = Lease { progress: Some(Progress::default()), reported: Some(at(5)), ..own.clone() };
    let change = decide::extend(&look(at(10), semaphore(vec![own.clone()])), &reporting).change;
    let state = change.and_then(|change| change.state).expect("a new expiry");
    assert_eq!(state.slots, [Lease { until: at(40), ..own }]);
}
