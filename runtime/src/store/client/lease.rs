//! Claiming a key, and extending and ending its lease.

use std::time::Duration;

use tokio::time::Instant;

use super::{Message, StoreClient, TimedReply, UnansweredSwaps, probe, record_key, step};
use crate::store::decide::UNKNOWN_FENCE;
use crate::store::{
    Change, Claim, ClaimDecision, ClaimPurpose, ClaimReply, Ending, ExtendReply, Lease, Look, ReleaseReply,
    SharedLock, StoreError, Swapped, decide,
};

/// A record as this process wrote it last. The next swap needs no look if nothing has changed since.
#[derive(Clone, Debug)]
pub(crate) struct CachedRecord {
    look: Look,
    received: Instant,
}

impl CachedRecord {
    pub(super) fn new(swapped: Swapped, lock: Option<SharedLock>, change: Change) -> Option<Self> {
        let Swapped { now, version, fence } = swapped;
        let lock = change.lock.apply(lock);
        // The mark of a transaction is not known here. A swap that depends on it is refused by the store.
        let look = Look { now, version: Some(version), fence, state: change.state?, lock, finished: None };
        Some(Self { look, received: Instant::now() })
    }

    /// A record as a look has just shown it.
    pub(crate) fn shown(look: Look) -> Self {
        Self { look, received: Instant::now() }
    }

    /// Returns the look that the store would show if nothing has changed since, with a lower bound of its clock.
    fn look(&self) -> Look {
        Look { now: self.look.now + self.received.elapsed(), ..self.look.clone() }
    }
}

impl StoreClient<'_> {
    /// Claims a key. If this is the first request of a claim (`is_new`) for a manual lock, it is the swap itself: the key is
    /// probably free.
    pub(crate) async fn claim(
        &self,
        key: &str,
        claim: &Claim,
        is_new: bool,
        unanswered: &mut UnansweredSwaps,
    ) -> Result<TimedReply<ClaimReply>, StoreError> {
        let key = &*record_key(key, claim.what.kind());
        let _semaphore_mutex = self.lock_semaphore(key, claim.what.kind()).await;
        let is_first =
            is_new && matches!(claim.what, ClaimPurpose::Lock | ClaimPurpose::Once | ClaimPurpose::Leader);
        let expected = is_first.then(|| Look::nothing(self.time.now()));
        let is_won = |reply: &ClaimReply| matches!(reply.decision, ClaimDecision::Won(_));
        let message = Message { step: step::CLAIM, key, expected, unanswered: Some(unanswered) };
        let mut answer = self.look_decide_swap(message, is_won, |look| decide::claim(look, claim)).await?;
        probe::claimed(claim, &answer.reply);
        if let (ClaimDecision::Won(won), Some(written)) = (&mut answer.reply.decision, &answer.written)
            && won.lease.fence == UNKNOWN_FENCE
        {
            won.lease.fence = written.look.fence;
        }
        Ok(answer)
    }

    /// Releases what an unanswered claim has won so far. Returns the time after which to ask again, because a late swap may
    /// still win; `None` if the claim can no longer win anything.
    pub(crate) async fn release_unanswered(
        &self,
        key: &str,
        lease: &Lease,
        end: &Ending,
        unanswered: &mut UnansweredSwaps,
    ) -> Result<Option<Duration>, StoreError> {
        let (look, _) = self.look(step::RELEASE, &record_key(key, lease.kind)).await?;
        unanswered.compare(&look, self.within);
        if decide::release(&look, lease, end).reply == ReleaseReply::Released {
            self.release(key, lease, end, None).await?;
            unanswered.released();
        }
        Ok(unanswered.ask_again_after(look.now, self.within))
    }

    /// Extends a lease; in one round trip if the record is as it was written last.
    pub(crate) async fn extend(
        &self,
        key: &str,
        lease: &Lease,
        cached: Option<&CachedRecord>,
    ) -> Result<TimedReply<ExtendReply>, StoreError> {
        let (key, expected) = (&record_key(key, lease.kind), cached.map(CachedRecord::look));
        let is_kept = |reply: &ExtendReply| matches!(reply, ExtendReply::Kept { .. });
        let message = Message { step: step::EXTEND, key, expected, unanswered: None };
        let answer = self.look_decide_swap(message, is_kept, |look| decide::extend(look, lease)).await?;
        probe::extended(lease, &answer.reply);
        Ok(answer)
    }

    /// Ends a lease; in one round trip if the record is as it was written last.
    pub(crate) async fn release(
        &self,
        key: &str,
        lease: &Lease,
        end: &Ending,
        cached: Option<&CachedRecord>,
    ) -> Result<TimedReply<ReleaseReply>, StoreError> {
        let key = &*record_key(key, lease.kind);
        let _semaphore_mutex = self.lock_semaphore(key, lease.kind).await;
        // The time for which work counts as done begins at the store's own time.
        let expected = cached.filter(|_| end.done_for.is_none()).map(CachedRecord::look);
        let is_released = |reply: &ReleaseReply| *reply == ReleaseReply::Released;
        let message = Message { step: step::RELEASE, key, expected, unanswered: None };
        let answer =
            self.look_decide_swap(message, is_released, |look| decide::release(look, lease, end)).await?;
        probe::released(lease, answer.reply);
        Ok(answer)
    }
}
