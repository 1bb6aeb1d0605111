//! The slots of a semaphore: several may be held at once, each by a lease of its own.
//!
//! They have a record of their own, apart from that of a job or lock with the same key, and no run records. Every holder
//! counts, even if the number of slots was lowered since.

use super::super::{Claim, ClaimDecision, ClaimReply, ExtendReply, FenceChange, Lease, ReleaseReply};
use super::transition::Transition;
use super::{Decision, UNKNOWN_FENCE, expiry};

/// Decides the claim of a slot. Confirms a repeated claim that had won, while its slot lasts.
pub(super) fn claim(mut transition: Transition<'_>, claim: &Claim, of: u32) -> Decision<ClaimReply> {
    let now = transition.now;
    let own = transition.held_slots(now).find(|slot| slot.token == claim.token).cloned();
    if let Some(own) = own {
        transition.confirm(claim, own.until);
        let won = transition.won(own);
        return transition.finish(won.into());
    }
    let held = transition.held_slots(now).count();
    let first_to_end = transition.held_slots(now).min_by_key(|slot| slot.until).map(|slot| slot.holder(now));
    if let Some(first) = first_to_end.filter(|_| u32::try_from(held).is_ok_and(|held| held >= of)) {
        return transition.finish(ClaimDecision::Held(first).into());
    }
    let slot = Lease::claimed(claim, now, expiry(now, claim.ttl));
    transition.hold_slot(slot.clone());
    transition.limit_to(claim.ttl, None);
    transition.change.fence = FenceChange::Next;
    let won = transition.won(slot);
    transition.finish(won.into())
}

/// Decides the extension of a slot. Restores a slot that the store has lost, if there is room.
pub(super) fn extend(mut transition: Transition<'_>, lease: &Lease, of: u32) -> Decision<ExtendReply> {
    let now = transition.now;
    let ours = |slot: &&Lease| slot.token == lease.token && slot.fence == lease.fence;
    let known_until = transition.slots.iter().find(ours).map(|slot| slot.until);
    let lost_by_the_store = lease.fence > transition.fence || lease.since < transition.slots_since;
    // The holder may know of a later expiry than a store that lost its last writes.
    let last = known_until.map_or(lease.until, |until| until.max(lease.until));
    // A slot that was held without a gap is kept, even if there are fewer by now.
    let uninterrupted = known_until.is_some_and(|until| until > now);
    let others = transition.held_slots(now).filter(|slot| slot.token != lease.token).count();
    let has_room = uninterrupted || u32::try_from(others).is_ok_and(|others| others < of);
    if last <= now || !(known_until.is_some() || lost_by_the_store) || !has_room {
        return transition.finish(ExtendReply::Lost { broken_by: None });
    }
    let until = expiry(now, lease.ttl);
    transition.hold_slot(Lease { until, progress: None, reported: None, ..lease.clone() });
    transition.limit_extension(last);
    transition.change.fence = FenceChange::AtLeast(lease.fence);
    transition.finish(match known_until {
        Some(_) => ExtendReply::Kept { until, cancelled_by: None },
        None => ExtendReply::Restored(until),
    })
}

/// Decides the release of a slot.
pub(super) fn release(mut transition: Transition<'_>, lease: &Lease) -> Decision<ReleaseReply> {
    let ours = |slot: &Lease| slot.token == lease.token && [slot.fence, UNKNOWN_FENCE].contains(&lease.fence);
    if !transition.slots.iter().any(ours) {
        return transition.finish(ReleaseReply::NotHeld);
    }
    transition.edit().slots.retain(|slot| !ours(slot));
    transition.change.notify = true;
    transition.finish(ReleaseReply::Released)
}

impl Transition<'_> {
    /// Adds a slot, and removes the holder's previous slot and expired ones.
    fn hold_slot(&mut self, slot: Lease) {
        let now = self.now;
        let is_new = self.slots.is_empty() && self.fence == 0;
        let stays_until = expiry(now, slot.ttl.saturating_mul(2));
        let state = self.edit();
        if is_new {
            // What is older than the record was lost by the store.
            state.slots_since = now;
        }
        state.slots.retain(|held| held.until > now && held.token != slot.token);
        state.slots.push(slot);
        // The newest one has no fence yet.
        state.slots.sort_by_key(|held| if held.fence == UNKNOWN_FENCE { i64::MAX } else { held.fence });
        self.stay_until(stays_until);
        self.change.grants_lease = true;
    }
}
