//! The slots of a semaphore: several may be held at once, each by a lease of its own.
//!
//! They have a record of their own, apart from that of a job or lock with the same key, and leave no run records. Every
//! holder counts, also when the number of slots was lowered since.

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
        let last = won.until.minus(std::time::Duration::from_micros(1));
        draft.edit();
        draft.limit_to(claim.ttl, Some(last));
        draft.change.grants_lease = true;
        return draft.finish(ClaimReply::Won(won).into());
    }
    let held = living().count();
    let first_to_end = living().min_by_key(|slot| slot.until).map(|slot| slot.holder(now));
    if let Some(first) = first_to_end.filter(|_| u32::try_from(held).is_ok_and(|held| held >= of)) {
        return draft.finish(ClaimReply::Held(first).into());
    }
    let slot = Slot {
        token: claim.token.clone(),
        server: claim.server.clone(),
        of,
        fence: None,
        since: now,
        until: expiry(now, claim.ttl),
    };
    let won = Won { fence: draft.fence, ..slot.won() };
    draft.begin_slots();
    let slots = &mut draft.edit().slots;
    slots.held.retain(|slot| slot.until > now);
    slots.held.push(slot);
    draft.stay_until(expiry(now, claim.ttl.saturating_mul(2)));
    draft.limit_to(claim.ttl, None);
    draft.change.fence = FenceChange::Next;
    draft.change.grants_lease = true;
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
    let until = expiry(now, lease.ttl);
    draft.begin_slots();
    let slots = &mut draft.edit().slots;
    slots.held.retain(|slot| slot.until > now && slot.token != lease.token);
    slots.held.push(Slot {
        token: lease.token.clone(),
        server: lease.server.clone(),
        of,
        fence: Some(lease.fence),
        since: lease.since,
        until,
    });
    slots.held.sort_by_key(|slot| slot.fence);
    draft.stay_until(expiry(now, lease.ttl.saturating_mul(2)));
    draft.change.not_before = Some(now);
    draft.change.not_after = Some(last.minus(std::time::Duration::from_micros(1)));
    draft.change.fence = FenceChange::AtLeast(lease.fence);
    draft.change.grants_lease = true;
    let kept = known_until.is_some();
    let reply =
        if kept { ExtendReply::Kept { until, cancelled_by: None } } else { ExtendReply::Restored(until) };
    draft.finish(reply)
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
    /// What is older than the record was lost by the store.
    fn begin_slots(&mut self) {
        if self.slots.held.is_empty() && self.fence == 0 {
            self.edit().slots.begun = self.now;
        }
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
        Holder {
            server: Some(self.server.to_string()),
            since: Some(self.since),
            remaining: Some(self.until.since(now)),
        }
    }
}
