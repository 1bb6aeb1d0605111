//! Decides extensions and releases.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::{
    Ending, ExtendReply, FenceChange, Lease, LeaseKind, LockChange, Look, ReleaseReply, RequestAnswer,
    RunOutcome, StartedTick,
};
use super::transition::Transition;
use super::{Decision, UNKNOWN_FENCE, expiry, slots};
use crate::util::planted::{PlantedBug, is_planted};

/// Decides the extension of a lease.
pub fn extend(look: &Look, lease: &Lease) -> Decision<ExtendReply> {
    let mut transition = Transition::new(look);
    if let LeaseKind::Slot { of } = lease.kind {
        return slots::extend(transition, lease, of);
    }
    let reply = transition.extend(lease);
    transition.finish(reply)
}

/// Decides the release of a lease. A lease has one record, however often it is released.
pub fn release(look: &Look, lease: &Lease, end: &Ending) -> Decision<ReleaseReply> {
    let mut transition = Transition::new(look);
    if let LeaseKind::Slot { .. } = lease.kind {
        return slots::release(transition, lease);
    }
    transition.change.notify = true;
    if transition.lock.is_some_and(|lock| lock.token == lease.token) {
        transition.change.lock = LockChange::Delete;
    }
    if transition.is_newest(lease) {
        return transition.release_newest(lease, end);
    }
    let reply = transition.release_unknown(lease, end);
    transition.finish(reply)
}

impl Transition<'_> {
    /// Whether the lease is the newest one in the record, ended or not.
    fn is_newest(&self, lease: &Lease) -> bool {
        let known = [self.fence, UNKNOWN_FENCE].contains(&lease.fence);
        let is_ours =
            |newest: &Lease| newest.token == lease.token || is_planted(PlantedBug::ReleaseIgnoresToken);
        known && self.claimant.as_ref().is_some_and(is_ours)
    }

    fn extend(&mut self, lease: &Lease) -> ExtendReply {
        let newest = self.claimant.as_ref().filter(|_| self.is_newest(lease));
        let lost = ExtendReply::Lost { broken_by: newest.and(self.broken_by.clone()) };
        if self.foreign_lock().is_some_and(|lock| lock.token != lease.token) {
            return lost;
        }
        let until = expiry(self.now, lease.ttl);
        let reply = match newest {
            Some(newest) => {
                // The holder may know of a later expiry than a store that lost its last writes.
                let last = newest.until.max(lease.until);
                if self.released || last <= self.now {
                    return lost;
                }
                self.limit_extension(last);
                if let Some(newest) = &mut self.edit().claimant {
                    (newest.until, newest.ttl) = (until, lease.ttl);
                    newest.progress.clone_from(&lease.progress);
                }
                self.outlive(lease.kind, lease.ttl);
                ExtendReply::Kept { until, cancelled_by: self.cancelled_by.clone() }
            }
            None if lease.fence > self.fence && lease.until > self.now => {
                self.limit_extension(lease.until);
                self.restore(lease, until);
                ExtendReply::Restored(until)
            }
            None => return lost,
        };
        self.forget_reported(lease);
        self.change.lock = LockChange::Set { token: lease.token.clone(), until };
        self.change.grants_lease = true;
        reply
    }

    /// Limits the swap of an extension to the life of the lease.
    pub(super) fn limit_extension(&mut self, last: Timestamp) {
        self.change.not_before = Some(self.now);
        self.change.not_after = Some(last - Duration::from_micros(1));
    }

    fn release_newest(mut self, lease: &Lease, end: &Ending) -> Decision<ReleaseReply> {
        if self.released {
            return self.finish(ReleaseReply::NotHeld);
        }
        if let Some(newest) = &mut self.edit().claimant {
            newest.progress.clone_from(&lease.progress);
        }
        if end.finish_called {
            // The mark of its transaction decides, in the same step after which no transaction can commit any more.
            self.end_lease();
            self.end_newest(&end.clone().settled(self.committed.is_some()));
        } else {
            self.end_newest(end);
        }
        self.forget_reported(lease);
        self.mark_done(end);
        let is_done = self.done.is_some_and(|done| done.until > self.now);
        let was_broken = self.broken_until.is_some_and(|until| until > self.now);
        // A record with an expiry is no job's: nothing is left to be known of a manual lock.
        if self.expires.is_some() && !is_done && !was_broken {
            return self.finish_without_record(ReleaseReply::Released);
        }
        self.finish(ReleaseReply::Released)
    }

    /// Ends the newest lease: what that means for its tick, its request and its record.
    fn end_newest(&mut self, end: &Ending) {
        let Some(run) = self.newest() else { return };
        self.edit().released = true;
        // Cancelling is an operator's decision, as breaking is: no other server takes the tick up.
        if end.outcome.is_finished() || self.cancelled_by.is_some() {
            self.finish_tick(run.tick);
        }
        if end.outcome == RunOutcome::NotStarted
            && let Some(request) = &mut self.edit().request
            && Some(request.id.as_str()) == run.request.as_deref()
        {
            // The request is open again.
            request.answer.take_if(|answer| matches!(answer, RequestAnswer::Started { .. }));
        }
        self.record_run(&run, self.now, end);
    }

    /// Decides the release of a lease that the store has lost, or that has a successor.
    fn release_unknown(&mut self, lease: &Lease, end: &Ending) -> ReleaseReply {
        let lost_by_the_store = lease.fence > self.fence;
        if lost_by_the_store && lease.kind == LeaseKind::Run {
            self.restore(lease, lease.until);
            if end.finish_called {
                // The mark of its transaction was lost, too, or was never there.
                self.end_newest(&end.clone().settled(false));
            } else {
                self.end_newest(end);
            }
            return ReleaseReply::Restored;
        }
        if lost_by_the_store && end.done_for.is_some() && self.key_holder().is_none() {
            // The work was done, and no other server is doing it.
            self.mark_done(end);
            return ReleaseReply::Restored;
        }
        // The lease's tick was started, whatever the store has lost since. An abandoned claim started nothing.
        if lease.fence != UNKNOWN_FENCE {
            self.raise_mark(lease);
        }
        ReleaseReply::NotHeld
    }

    /// Restores a lease that is newer than the record: the store lost writes.
    fn restore(&mut self, lease: &Lease, until: Timestamp) {
        self.outlive(lease.kind, lease.ttl);
        self.raise_mark(lease);
        self.fence = lease.fence;
        self.change.fence = FenceChange::AtLeast(lease.fence);
        if let Some(tick) = lease.tick {
            // The store's state of the tick has precedence: another attempt may have finished it meanwhile.
            let known = self.started_at(tick);
            let takeovers = known.map_or(lease.takeovers, |known| known.takeovers);
            let finished = known.is_some_and(|known| known.finished);
            self.edit().started = Some(StartedTick { tick, attempt: lease.attempt, finished, takeovers });
        }
        self.grant(Lease { until, ..lease.clone() });
    }

    /// Removes the gaps of missed ticks that the holder has reported.
    fn forget_reported(&mut self, lease: &Lease) {
        if let Some(reported) = lease.reported
            && self.missed.iter().any(|gap| gap.before <= reported)
        {
            self.edit().missed.retain(|gap| gap.before > reported);
        }
    }
}
