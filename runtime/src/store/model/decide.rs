//! What a claim is decided by: who holds the key, what became of a tick, which ticks may be taken over.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{
    Claim, ClaimReply, Holder, Registered, SkipRecord, Taken, TickClaim, Unfinished, Won,
};
use super::{Lock, State};

/// So many successful runs tell how long one usually takes.
const ENOUGH_TO_TELL: u64 = 3;

impl State {
    pub(super) fn drop_expired_lock(&mut self, now: Timestamp) {
        if self.lock.as_ref().and_then(|lock| lock.until).is_some_and(|until| until <= now) {
            self.lock = None;
        }
    }

    /// Who holds the key: the last claimant while its lease lasts, else a stranger who set the lock.
    pub(super) fn holder(&self, now: Timestamp) -> Option<Holder> {
        let claimant = self.claimant.as_ref().filter(|c| !c.released && c.until > now);
        let ours = claimant.map(|claimant| Holder {
            server: Some(claimant.server.clone()),
            since: Some(claimant.since),
            remaining: Some(claimant.until.since(now)),
        });
        ours.or_else(|| {
            let claimant = self.claimant.as_ref().map(|claimant| &claimant.token);
            let stranger = self.lock.as_ref().filter(|lock| Some(&lock.token) != claimant)?;
            let remaining = stranger.until.map(|until| until.since(now));
            Some(Holder { server: None, since: None, remaining })
        })
    }

    /// The claimant repeats its claim: a reply was lost.
    pub(super) fn claimed_again(&mut self, now: Timestamp) -> ClaimReply {
        let Some(claimant) = &self.claimant else { return ClaimReply::Lost };
        let stranger = self.lock.as_ref().is_some_and(|lock| lock.token != claimant.token);
        if claimant.released || claimant.until <= now || stranger {
            return ClaimReply::Lost;
        }
        self.lock = Some(Lock { token: claimant.token.clone(), until: Some(claimant.until) });
        ClaimReply::Won(Won {
            fence: self.fence,
            attempt: claimant.attempt,
            since: claimant.since,
            until: claimant.until,
            missed_after: None,
            usual: self.usual(),
        })
    }

    /// For no tick: only a holder is in the way.
    pub(super) fn claimed_by_hand(&mut self, now: Timestamp, claim: &Claim) -> ClaimReply {
        match self.holder(now) {
            Some(holder) => ClaimReply::Held(holder),
            None => self.win(now, claim, None, 1),
        }
    }

    /// How many servers have tried this tick, if it is unfinished and free for another.
    pub(super) fn attempts_to_take_over(&self, now: Timestamp, ask: &TickClaim) -> Option<u32> {
        let unfinished =
            self.unfinished(now, ask.takeovers).filter(|unfinished| unfinished.tick == ask.tick)?;
        let free = unfinished.remaining == Some(Duration::ZERO);
        self.started.filter(|_| free).map(|started| started.attempt)
    }

    /// The last started tick, if it may have to be taken over.
    pub(super) fn unfinished(&self, now: Timestamp, takeovers: u32) -> Option<Unfinished> {
        let started = self.started.filter(|started| !started.finished && started.attempt <= takeovers)?;
        let remaining = self.holder(now).map_or(Some(Duration::ZERO), |holder| holder.remaining);
        (!self.paused).then_some(Unfinished { tick: started.tick, remaining })
    }

    /// The answer for a tick at or below the mark.
    pub(super) fn decided(&self, now: Timestamp, tick: Timestamp) -> Option<ClaimReply> {
        let mark = self.mark.as_ref().filter(|mark| mark.tick >= tick)?;
        if mark.tick > now {
            return Some(ClaimReply::Ahead(mark.tick));
        }
        if mark.tick > tick {
            return Some(ClaimReply::Superseded(mark.tick));
        }
        Some(ClaimReply::Taken(match mark.skip {
            Some(reason) => {
                Taken::Skipped(SkipRecord { tick, reason, server: mark.server.clone(), at: mark.at })
            }
            None => Taken::Started {
                server: mark.server.clone(),
                since: mark.at,
                finished: self.started.is_some_and(|started| started.tick == tick && started.finished),
            },
        }))
    }

    /// Remembers a schedule that the store does not know, and returns the one that it replaces.
    pub(super) fn register(&mut self, now: Timestamp, claim: &Claim, ask: &TickClaim) -> Option<Registered> {
        if self.registered.as_ref().is_some_and(|registered| registered.schedule == ask.schedule) {
            return None;
        }
        let (schedule, server) = (ask.schedule.clone(), claim.server.clone());
        self.registered.replace(Registered { schedule, at: now, server })
    }

    /// Whether a run by hand waits for a server that has the job.
    pub(super) fn is_requested(&self, now: Timestamp) -> bool {
        self.request.as_ref().is_some_and(|(request, answer)| answer.is_none() && request.until > now)
    }

    pub(super) fn usual(&self) -> Option<Duration> {
        self.stats.mean().filter(|_| self.stats.successes >= ENOUGH_TO_TELL)
    }
}
