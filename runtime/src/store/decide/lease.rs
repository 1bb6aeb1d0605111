//! Extending and ending a lease.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{Ending, ExtendReply, Kind, Lease, ReleaseReply, RequestAnswer, RunOutcome};
use super::super::{Claimant, FenceChange, LockChange, Look, Started};
use super::draft::Draft;
use super::{Decision, UNKNOWN_FENCE, expiry, micros, slots};

/// The holder asks for more time.
pub fn extend(look: &Look, lease: &Lease) -> Decision<ExtendReply> {
    let mut draft = Draft::new(look);
    if let Kind::Slot { of } = lease.kind {
        return slots::extend(draft, lease, of);
    }
    let reply = draft.extend(lease);
    draft.finish(reply)
}

/// The holder ends its lease. One record per lease, however often this is sent.
pub fn release(look: &Look, lease: &Lease, end: &Ending) -> Decision<ReleaseReply> {
    let mut draft = Draft::new(look);
    if let Kind::Slot { .. } = lease.kind {
        return slots::release(draft, lease);
    }
    draft.change.notify = true;
    if draft.lock.is_some_and(|lock| lock.token == lease.token) {
        draft.change.lock = LockChange::Delete;
    }
    if draft.is_held_by(lease) {
        return draft.release_own(lease, end);
    }
    let reply = draft.release_unknown(lease, end);
    draft.finish(reply)
}

impl Draft<'_> {
    /// Whether the lease is the newest one in the record, ended or not.
    fn is_held_by(&self, lease: &Lease) -> bool {
        let known = [self.fence, UNKNOWN_FENCE].contains(&lease.fence);
        known && self.claimant.as_ref().is_some_and(|claimant| claimant.token == lease.token)
    }

    fn extend(&mut self, lease: &Lease) -> ExtendReply {
        let claimant = self.claimant.as_ref().filter(|_| self.is_held_by(lease));
        let broken_by = claimant.and_then(|claimant| claimant.broken_by.clone());
        let lost = ExtendReply::Lost { broken_by };
        let foreign = self.lock.is_some_and(|lock| {
            let known = self.claimant.as_ref().map(|claimant| &claimant.token);
            lock.token != lease.token && Some(&lock.token) != known
        });
        if foreign {
            return lost;
        }
        let until = expiry(self.now, lease.ttl);
        let reply = match claimant {
            Some(claimant) => {
                // The holder may know of a later expiry than a store that lost its last writes.
                let last = claimant.until.max(lease.until);
                if claimant.released || last <= self.now {
                    return lost;
                }
                let cancelled_by = claimant.cancelled_by.clone();
                self.limit_extension(last);
                if let Some(claimant) = &mut self.edit().claimant {
                    claimant.until = until;
                    claimant.ttl_micros = micros(lease.ttl);
                    claimant.progress.clone_from(&lease.progress);
                }
                self.outlive(lease.kind, lease.ttl);
                ExtendReply::Kept { until, cancelled_by }
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

    /// An extension counts only while the lease it extends lasts.
    pub(super) fn limit_extension(&mut self, last: Timestamp) {
        self.change.not_before = Some(self.now);
        self.change.not_after = Some(last.minus(Duration::from_micros(1)));
    }

    fn release_own(mut self, lease: &Lease, end: &Ending) -> Decision<ReleaseReply> {
        let Some(claimant) = self.claimant.clone() else { return self.finish(ReleaseReply::NotHeld) };
        if claimant.released {
            return self.finish(ReleaseReply::NotHeld);
        }
        let ended = Claimant { released: true, progress: lease.progress.clone(), ..claimant };
        if lease.kind == Kind::Run {
            self.end_run(&ended, end);
        }
        self.forget_reported(lease);
        self.edit().claimant = Some(ended);
        self.mark_done(end);
        let is_done = self.done.is_some_and(|done| done.until > self.now);
        let was_broken = self.broken_until.is_some_and(|until| until > self.now);
        // A record with an expiry is no job's: nothing is left to be known of a manual lock.
        if self.expires.is_some() && !is_done && !was_broken {
            return self.finish_without_record(ReleaseReply::Released);
        }
        self.finish(ReleaseReply::Released)
    }

    /// What a run's end means for its tick, its request and its record.
    fn end_run(&mut self, run: &Claimant, end: &Ending) {
        // Cancelling is an operator's decision, as breaking is: no other server takes the tick up.
        let is_finished = end.outcome.is_finished() || run.cancelled_by.is_some();
        if is_finished {
            self.finish_tick(run.tick);
        }
        if end.outcome == RunOutcome::NotStarted && run.request.is_some() {
            self.reopen_request(run);
        }
        self.record_run(run, self.now, end);
    }

    /// The run that was requested never started: the request waits again.
    fn reopen_request(&mut self, run: &Claimant) {
        if let Some(request) = &mut self.edit().request
            && Some(request.id.as_str()) == run.request.as_deref()
        {
            request.answer.take_if(|answer| matches!(answer, RequestAnswer::Started { .. }));
        }
    }

    /// The store does not know the lease any more, or has given the key to another one since.
    fn release_unknown(&mut self, lease: &Lease, end: &Ending) -> ReleaseReply {
        let lost_by_the_store = lease.fence > self.fence;
        if lost_by_the_store && lease.kind == Kind::Run {
            self.restore(lease, lease.until);
            if let Some(mut run) = self.claimant.clone() {
                run.released = true;
                self.end_run(&run, end);
                self.edit().claimant = Some(run);
            }
            return ReleaseReply::Restored;
        }
        if lost_by_the_store && end.done_for.is_some() && self.key_holder().is_none() {
            // The work was done, and no other server is at it.
            self.mark_done(end);
            return ReleaseReply::Restored;
        }
        // The lease's tick was started, whatever the store has lost since. An abandoned claim started nothing.
        if lease.fence != UNKNOWN_FENCE {
            self.raise_mark(lease);
        }
        ReleaseReply::NotHeld
    }

    /// Puts back a lease that is newer than anything in the record: the store lost writes.
    fn restore(&mut self, lease: &Lease, until: Timestamp) {
        self.outlive(lease.kind, lease.ttl);
        self.raise_mark(lease);
        self.fence = lease.fence;
        self.change.fence = FenceChange::AtLeast(lease.fence);
        if let Some(tick) = lease.tick {
            // What the store still knows of the tick counts: another attempt may have finished it meanwhile.
            let known = self.started_at(tick);
            let takeovers = known.map_or(lease.takeovers, |known| known.takeovers);
            let finished = known.is_some_and(|known| known.finished);
            self.edit().started = Some(Started { tick, attempt: lease.attempt, finished, takeovers });
        }
        self.edit().claimant = Some(Claimant::of(Lease { until, ..lease.clone() }));
    }

    /// The holder has reported the missed ticks before this instant.
    fn forget_reported(&mut self, lease: &Lease) {
        if let Some(reported) = lease.reported
            && self.missed.iter().any(|gap| gap.before <= reported)
        {
            self.edit().missed.retain(|gap| gap.before > reported);
        }
    }
}

impl Claimant {
    /// The claimant that a lease makes of its holder.
    pub(super) fn of(lease: Lease) -> Self {
        Self {
            token: lease.token,
            server: lease.server,
            kind: lease.kind,
            tick: lease.tick,
            attempt: lease.attempt,
            request: lease.request,
            since: lease.since,
            until: lease.until,
            ttl_micros: micros(lease.ttl),
            released: false,
            broken_by: None,
            cancelled_by: None,
            progress: lease.progress,
        }
    }
}
