//! What a step leaves behind: the new claimant, marks, records and counts.

use singleton_jobs_policy::Timestamp;

use super::super::messages::{
    Claim, ClaimReply, Ending, Lease, RunOutcome, RunRecord, Skip, SkipRecord, What, Won,
};
use super::{Claimant, Lock, Mark, Started, State, expiry};

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
        self.claimant = Some(Claimant {
            token: claim.token.clone(),
            server: claim.server.clone(),
            tick,
            attempt,
            since: now,
            until,
            released: false,
            progress: None,
        });
        self.lock = Some(Lock { token: claim.token.clone(), until: Some(until) });
        if let (What::Tick(ask), Some(registered)) = (&claim.what, &mut self.registered)
            && registered.schedule == ask.schedule
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

    pub(super) fn skip(&mut self, now: Timestamp, claim: &Claim, tick: Timestamp, reason: Skip) {
        self.mark = Some(Mark { tick, skip: Some(reason), server: claim.server.clone(), at: now });
        self.skips.push_front(SkipRecord { tick, reason, server: claim.server.clone(), at: now });
        self.skips.truncate(claim.remember);
    }

    /// The last claimant never said how its run ended, and its lease is over.
    pub(super) fn record_crash(&mut self, remember: usize) {
        if let Some(gone) = self.claimant.take().filter(|claimant| !claimant.released) {
            let crashed =
                Ending { outcome: RunOutcome::Crashed, error: None, failed_tries: Vec::new(), remember };
            self.remember(gone.until, &gone, &crashed);
        }
    }

    pub(super) fn remember(&mut self, ended: Timestamp, run: &Claimant, end: &Ending) {
        self.count(ended, run, end.outcome);
        self.runs.push_front(RunRecord {
            tick: run.tick,
            server: run.server.clone(),
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
        self.raise_mark(now, lease);
        self.fence = lease.fence;
        self.claimant = Some(Claimant {
            token: lease.token.clone(),
            server: lease.server.clone(),
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
        }
    }
}
