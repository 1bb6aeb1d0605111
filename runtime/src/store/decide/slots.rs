//! The slots of a key: so many may be held at once, each by a lease of its own.
//!
//! They share nothing with the key's lock, and leave no records.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::super::messages::{
    Claim, ClaimReply, ExtendReply, HeldLock, Holder, Kind, Lease, ReleaseReply, Won,
};
use super::{UNKNOWN_FENCE, expiry, not_before};

/// Who holds slots of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// In the order in which they were won. A slot that has expired is free, though it may still be listed.
    pub held: Vec<Slot>,
    /// The newest slot's fence.
    pub fence: i64,
    /// When the store began to keep this: what is older was lost by it.
    pub begun: Timestamp,
    /// When all of this goes away by itself.
    pub expires: Timestamp,
}

/// One slot, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its holder's proof of ownership.
    pub token: Arc<str>,
    /// Where the holder is.
    pub server: Arc<str>,
    /// Of how many, when it was won or last extended.
    pub of: u32,
    /// Orders the slots.
    pub fence: i64,
    /// When it was won.
    pub since: Timestamp,
    /// When it ends unless it is extended.
    pub until: Timestamp,
}

impl Slots {
    pub(super) fn drop_expired(&mut self, now: Timestamp) {
        // Most keys never had any.
        if self.fence != 0 && self.expires <= now {
            *self = Self::default();
        }
    }

    /// A server asks for a slot. A repeated claim that had won is told so again, while its slot lasts.
    pub(super) fn claim(&mut self, now: Timestamp, claim: &Claim, of: u32) -> ClaimReply {
        self.held.retain(|slot| slot.until > now);
        if let Some(slot) = self.held.iter().find(|slot| slot.token == claim.token) {
            return ClaimReply::Won(slot.won());
        }
        if let Some(first) = self.first_to_end(now).filter(|_| self.is_full(of)) {
            return ClaimReply::Held(first);
        }
        if self.held.is_empty() && self.fence == 0 {
            self.begun = now;
        }
        self.fence = (self.fence + 1).max(now.as_micros());
        let slot = Slot {
            token: claim.token.clone(),
            server: claim.server.clone(),
            of,
            fence: self.fence,
            since: now,
            until: expiry(now, claim.ttl),
        };
        let won = slot.won();
        self.held.push(slot);
        self.stay_until(expiry(now, claim.ttl.saturating_mul(2)));
        ClaimReply::Won(won)
    }

    /// A holder asks for more time. A store that has lost the slot takes it back, if there is room.
    pub(super) fn extend(&mut self, now: Timestamp, lease: &Lease, of: u32) -> ExtendReply {
        let known = self.held.iter().find(|slot| slot.token == lease.token && slot.fence == lease.fence);
        let known_until = known.map(|slot| slot.until);
        self.held.retain(|slot| slot.until > now);
        let lost_by_the_store = lease.fence > self.fence || lease.since < self.begun;
        // The holder may know of a later expiry than a store that lost its last writes.
        let lasts = known_until.map_or(lease.until, |until| until.max(lease.until));
        // Who held its slot without a gap keeps it, even if there are fewer by now.
        let uninterrupted = known_until.is_some_and(|until| until > now);
        let others = self.held.iter().filter(|slot| slot.token != lease.token).count();
        let has_a_place = uninterrupted || u32::try_from(others).is_ok_and(|others| others < of);
        if lasts <= now || !(known_until.is_some() || lost_by_the_store) || !has_a_place {
            return ExtendReply::Lost;
        }
        self.held.retain(|slot| slot.token != lease.token);
        if self.held.is_empty() && self.fence == 0 {
            self.begun = now;
        }
        self.fence = self.fence.max(lease.fence);
        let until = expiry(now, lease.ttl);
        let until = known_until.map_or(until, |known| not_before(until, known, lease));
        self.held.push(Slot {
            token: lease.token.clone(),
            server: lease.server.clone(),
            of,
            fence: lease.fence,
            since: lease.since,
            until,
        });
        self.held.sort_by_key(|slot| slot.fence);
        self.stay_until(expiry(now, lease.ttl.saturating_mul(2)));
        if known_until.is_some() { ExtendReply::Kept(until) } else { ExtendReply::Restored(until) }
    }

    /// A holder gives its slot back.
    pub(super) fn release(&mut self, lease: &Lease) -> ReleaseReply {
        let ours =
            |slot: &Slot| slot.token == lease.token && [slot.fence, UNKNOWN_FENCE].contains(&lease.fence);
        let before = self.held.len();
        self.held.retain(|slot| !ours(slot));
        if self.held.len() < before { ReleaseReply::Released } else { ReleaseReply::NotHeld }
    }

    /// The slot that ends first, unless it is extended.
    pub(super) fn first_to_end(&self, now: Timestamp) -> Option<Holder> {
        let living = self.held.iter().filter(|slot| slot.until > now);
        living.min_by_key(|slot| slot.until).map(|slot| slot.holder(now))
    }

    pub(super) fn list(&self, now: Timestamp, key: &str) -> impl Iterator<Item = HeldLock> {
        self.held.iter().filter(move |slot| slot.until > now).map(move |slot| HeldLock {
            key: key.to_owned(),
            kind: Some(Kind::Slot { of: slot.of }),
            fence: Some(slot.fence),
            holder: slot.holder(now),
        })
    }

    fn is_full(&self, of: u32) -> bool {
        u32::try_from(self.held.len()).is_ok_and(|held| held >= of)
    }

    fn stay_until(&mut self, instant: Timestamp) {
        self.expires = self.expires.max(instant);
    }
}

impl Slot {
    fn won(&self) -> Won {
        let Self { fence, since, until, .. } = *self;
        Won { fence, attempt: 1, since, until, missed_after: None, usual: None }
    }

    fn holder(&self, now: Timestamp) -> Holder {
        Holder {
            server: Some(self.server.to_string()),
            since: Some(self.since),
            remaining: Some(self.until.since(now)),
        }
    }
}
