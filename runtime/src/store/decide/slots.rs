//! The slots of a semaphore: several may be held at once, each by a lease of its own.
//!
//! They have a record of their own, apart from that of a job or lock with the same key, and leave no run records. Every
//! holder counts, also when the number of slots was lowered since.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{Claim, ClaimReply, ExtendReply, Holder, Lease, ReleaseReply, Verdict, Won};
use super::super::{FenceChange, Slot};
use super::draft::Draft;
use super::{Decision, UNKNOWN_FENCE, expiry};

/// A server claims a slot. A repeated claim that had won is confirmed, while its slot lasts.
pub(super) fn claim(mut draft: Draft<'_>, claim: &Claim, of: u32) -> Decision<Verdict> {
    let now = draft.now;
    let living = || draft.slots.held.iter().filter(|slot| slot.until > now);
    if let Some(slot) = living().find(|slot| slot.token == claim.token) {
        let won = slot.won();
        draft.confirm(claim, won.until);
        return draft.finish(ClaimReply::Won(won).into());
    }
    let held = living().count();
    let first_to_end = living().min_by_key(|slot| slot.until).map(|slot| slot.holder(now));
    if let Some(first) = first_to_end.filter(|_| u32::try_from(held).is_ok_and(|held| held >= of)) {
        return draft.finish(ClaimReply::Held(first).into());
    }
    let (token, server) = (claim.token.clone(), claim.server.clone());
    let slot = Slot { token, server, of, fence: None, since: now, until: expiry(now, claim.ttl) };
    let won = Won { fence: draft.fence, ..slot.won() };
    draft.hold_slot(slot, claim.ttl);
    draft.limit_to(claim.ttl, None);
    draft.change.fence = FenceChange::Next;
    draft.finish(ClaimReply::Won(won).into())
}

/// A holder asks for more time. A slot that the store has lost is restored, if there is room.
pub(super) fn extend(mut draft: Draft<'_>, lease: &Lease, of: u32) -> Decision<ExtendReply> {
    let now = draft.now;
    let known = draft.slots.held.iter().find(|slot| slot.is_of(lease));
    let known_until = known.map(|slot| slot.until);
    let lost_by_the_store = lease.fence > draft.fence || lease.since < draft.slots.begun;
    // The holder may know of a later expiry than a store that lost its last writes.
    let last = known_until.map_or(lease.until, |until| until.max(lease.until));
    // A slot that was held without a gap is kept, even if there are fewer by now.
    let uninterrupted = known_until.is_some_and(|until| until > now);
    let others = draft.slots.held.iter().filter(|slot| slot.until > now && slot.token != lease.token).count();
    let has_room = uninterrupted || u32::try_from(others).is_ok_and(|others| others < of);
    if last <= now || !(known_until.is_some() || lost_by_the_store) || !has_room {
        return draft.finish(ExtendReply::Lost { broken_by: None });
    }
    let (token, server, until) = (lease.token.clone(), lease.server.clone(), expiry(now, lease.ttl));
    let slot = Slot { token, server, of, fence: Some(lease.fence), since: lease.since, until };
    draft.hold_slot(slot, lease.ttl);
    draft.limit_extension(last);
    draft.change.fence = FenceChange::AtLeast(lease.fence);
    draft.finish(match known_until {
        Some(_) => ExtendReply::Kept { until, cancelled_by: None },
        None => ExtendReply::Restored(until),
    })
}

/// A holder gives its slot back.
pub(super) fn release(mut draft: Draft<'_>, lease: &Lease) -> Decision<ReleaseReply> {
    let ours = |slot: &Slot| slot.token == lease.token && (lease.fence == UNKNOWN_FENCE || slot.is_of(lease));
    if !draft.slots.held.iter().any(ours) {
        return draft.finish(ReleaseReply::NotHeld);
    }
    draft.edit().slots.held.retain(|slot| !ours(slot));
    draft.change.notify = true;
    draft.finish(ReleaseReply::Released)
}

impl Draft<'_> {
    /// Puts a slot in place of what its holder had, and of those that have expired.
    fn hold_slot(&mut self, slot: Slot, ttl: Duration) {
        let now = self.now;
        let is_new = self.slots.held.is_empty() && self.fence == 0;
        let slots = &mut self.edit().slots;
        if is_new {
            // What is older than the record was lost by the store.
            slots.begun = now;
        }
        slots.held.retain(|held| held.until > now && held.token != slot.token);
        slots.held.push(slot);
        // The newest one has no fence yet.
        slots.held.sort_by_key(|held| held.fence.unwrap_or(i64::MAX));
        self.stay_until(expiry(now, ttl.saturating_mul(2)));
        self.change.grants_lease = true;
    }
}

impl Slot {
    fn is_of(&self, lease: &Lease) -> bool {
        self.token == lease.token && self.fence == Some(lease.fence)
    }

    fn won(&self) -> Won {
        let fence = self.fence.unwrap_or_default();
        let (attempt, takeovers, missed, usual) = (1, 0, Vec::new(), None);
        Won { fence, attempt, takeovers, since: self.since, until: self.until, missed, usual }
    }

    pub(super) fn holder(&self, now: Timestamp) -> Holder {
        Holder::of(&self.server, self.since, self.until.since(now))
    }
}
