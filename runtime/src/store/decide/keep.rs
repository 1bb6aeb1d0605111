//! What a step leaves behind: the new claimant, marks, records and counts.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{
    Claim, ClaimReply, Ending, Kind, Lease, RunOutcome, RunRecord, Skip, SkipRecord, What, Won,
};
use super::{Claimant, Done, Lock, Mark, Started, State, expiry};

impl State {
    pub(super) fn win(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        tick: Option<Timestamp>,
        attempt: u32,
    ) -> ClaimReply {
        self.record_crash(claim.remember);
        let until = expiry(now, claim.ttl);
        // Time makes fences grow even over a failover that lost the last one.
        self.fence = (self.fence + 1).max(now.as_micros());
        let kind = claim.what.kind();
        self.outlives(kind, now, claim.ttl);
        self.claimant = Some(Claimant {
            token: claim.token.clone(),
            server: claim.server.clone(),
            kind,
            tick,
            attempt,
            since: now,
            until,
            released: false,
            progress: None,
        });
        self.lock = Some(Lock { token: claim.token.clone(), until: Some(until) });
        if let (What::Tick(ask), Some(registered)) = (&claim.what, &mut self.registered)
            && *registered.schedule == *ask.schedule
        {
            registered.used = now;
        }
        let mut missed_after = None;
        if let Some(tick) = tick {
            if attempt == 1 {
                let registered = self.registered.as_ref().map(|registered| registered.at);
                missed_after = registered.max(self.mark.as_ref().map(|mark| mark.tick));
            }
            self.started = Some(Started { tick, attempt, finished: false });
            if self.mark.as_ref().is_none_or(|mark| mark.tick <= tick) {
                self.mark = Some(Mark { tick, skip: None, server: claim.server.clone(), at: now });
            }
        }
        let usual = self.usual();
        ClaimReply::Won(Won { fence: self.fence, attempt, since: now, until, missed_after, usual })
    }

    /// What is known of a job stays. Of other keys it is kept for another ttl after the lease: then no late copy of a
    /// message is taken for a new one.
    pub(super) fn outlives(&mut self, kind: Kind, now: Timestamp, ttl: Duration) {
        match kind {
            Kind::Run => self.expires = None,
            _ => self.stays_until(expiry(now, ttl.saturating_mul(2))),
        }
    }

    fn stays_until(&mut self, instant: Timestamp) {
        self.expires = self.expires.map(|expires| expires.max(instant));
    }

    /// The key's work was done, and for so long it need not be done again.
    pub(super) fn mark_done(&mut self, now: Timestamp, end: &Ending) {
        if let Some(done_for) = end.done_for {
            let until = expiry(now, done_for);
            self.done = Some(Done { at: now, until });
            self.stays_until(until);
        }
    }

    pub(super) fn skip(&mut self, now: Timestamp, claim: &Claim, tick: Timestamp, reason: Skip) {
        self.mark = Some(Mark { tick, skip: Some(reason), server: claim.server.clone(), at: now });
        self.skips.push_front(SkipRecord { tick, reason, server: claim.server.to_string(), at: now });
        self.skips.truncate(claim.remember);
    }

    /// The last claimant never said how its run ended, and its lease is over.
    pub(super) fn record_crash(&mut self, remember: usize) {
        if let Some(gone) = self.claimant.take().filter(|claimant| !claimant.released) {
            self.remember(gone.until, &gone, &Ending::of(RunOutcome::Crashed, remember));
        }
    }

    pub(super) fn remember(&mut self, ended: Timestamp, run: &Claimant, end: &Ending) {
        self.count(ended, run, end.outcome);
        self.runs.push_front(RunRecord {
            tick: run.tick,
            server: run.server.to_string(),
            fence: self.fence,
            attempt: run.attempt,
            started: run.since,
            ended,
            outcome: end.outcome,
            error: end.error.clone(),
            failed_tries: end.failed_tries.clone(),
            progress: run.progress.clone(),
        });
        self.runs.truncate(end.remember);
    }

    fn count(&mut self, ended: Timestamp, run: &Claimant, outcome: RunOutcome) {
        let stats = &mut self.stats;
        stats.runs += u64::from(outcome != RunOutcome::NotStarted);
        stats.failures += u64::from(outcome.is_failure());
        if outcome == RunOutcome::Succeeded {
            let took = u64::try_from(ended.since(run.since).as_micros()).unwrap_or(u64::MAX);
            stats.successes += 1;
            stats.total_micros = stats.total_micros.saturating_add(took);
            stats.longest_micros = stats.longest_micros.max(took);
            stats.last_success = Some(ended);
        }
    }

    /// Puts back a lease that is newer than anything the store knows: it lost writes.
    pub(super) fn restore(
        &mut self,
        now: Timestamp,
        lease: &Lease,
        until: Timestamp,
        released: bool,
        finished: bool,
    ) {
        self.outlives(lease.kind, now, lease.ttl);
        self.raise_mark(now, lease);
        self.fence = lease.fence;
        self.claimant = Some(Claimant {
            token: lease.token.clone(),
            server: lease.server.clone(),
            kind: lease.kind,
            tick: lease.tick,
            attempt: lease.attempt,
            since: lease.since,
            until,
            released,
            progress: lease.progress.clone(),
        });
        if let Some(tick) = lease.tick {
            self.started = Some(Started { tick, attempt: lease.attempt, finished });
        }
    }

    pub(super) fn raise_mark(&mut self, now: Timestamp, lease: &Lease) {
        let Some(tick) = lease.tick else { return };
        if self.mark.as_ref().is_none_or(|mark| mark.tick < tick) {
            self.mark = Some(Mark { tick, skip: None, server: lease.server.clone(), at: now });
            self.expires = None;
        }
    }
}
