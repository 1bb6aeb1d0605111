//! What a claim is decided by: who holds the key, what became of a tick, which ticks may be taken over.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{
    Claim, ClaimReply, Holder, Registered, RequestAnswer, Requested, SkipRecord, Taken, TickClaim,
    Unfinished, What, Won,
};
use super::{Lock, State};

/// A schedule with which no tick was won for so long is followed by no server.
const ABANDONED: Duration = Duration::from_secs(3600);

/// So many successful runs tell how long one usually takes.
const ENOUGH_TO_TELL: u64 = 3;

impl State {
    /// What has expired is gone: the lock, the slots, and all that is known of a key that no job has.
    pub(super) fn drop_expired(&mut self, now: Timestamp) {
        if self.lock.as_ref().and_then(|lock| lock.until).is_some_and(|until| until <= now) {
            self.lock = None;
        }
        self.slots.drop_expired(now);
        if self.expires.is_some_and(|expires| expires <= now) {
            let (lock, slots) = (self.lock.take(), std::mem::take(&mut self.slots));
            *self = Self { lock, slots, ..Self::default() };
        }
    }

    /// Who holds the key: the last claimant while its lease lasts, else a stranger who set the lock.
    pub(super) fn holder(&self, now: Timestamp) -> Option<Holder> {
        let claimant = self.claimant.as_ref().filter(|c| !c.released && c.until > now);
        let ours = claimant.map(|claimant| Holder {
            server: Some(claimant.server.to_string()),
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

    /// For work that is done once: a mark that it was done is in the way, too.
    pub(super) fn claimed_once(&mut self, now: Timestamp, claim: &Claim) -> ClaimReply {
        match self.done.filter(|done| done.until > now) {
            Some(done) => ClaimReply::Done(done.at),
            None => self.claimed_by_hand(now, claim),
        }
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

    /// The last started tick, if it may have to be taken over. A pause only puts that off.
    pub(super) fn unfinished(&self, now: Timestamp, takeovers: u32) -> Option<Unfinished> {
        let started = self.started.filter(|started| !started.finished && started.attempt <= takeovers)?;
        let remaining = self.holder(now).map_or(Some(Duration::ZERO), |holder| holder.remaining);
        let remaining = remaining.filter(|_| !self.paused);
        (started.tick <= now).then_some(Unfinished { tick: started.tick, remaining })
    }

    /// The same, for whoever did not win.
    pub(super) fn left_unfinished(
        &self,
        now: Timestamp,
        claim: &Claim,
        decision: &ClaimReply,
    ) -> Option<Unfinished> {
        match (&claim.what, decision) {
            (What::Tick(ask), refusal) if !matches!(refusal, ClaimReply::Won(_)) => {
                self.unfinished(now, ask.takeovers)
            }
            _ => None,
        }
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
                Taken::Skipped(SkipRecord { tick, reason, server: mark.server.to_string(), at: mark.at })
            }
            None => Taken::Started {
                server: mark.server.to_string(),
                since: mark.at,
                finished: self.started.is_some_and(|started| started.tick == tick && started.finished),
            },
        }))
    }

    /// Remembers the schedule of the newest server, and returns one that differs from the asking server's.
    ///
    /// While old and new servers run side by side the old ones change nothing.
    pub(super) fn register(&mut self, now: Timestamp, claim: &Claim, ask: &TickClaim) -> Option<Registered> {
        let begun = now.minus(ask.known_for);
        let new = || {
            let (schedule, server) = (ask.schedule.to_string(), claim.server.to_string());
            Registered { schedule, at: now, server, begun, used: now }
        };
        let Some(known) = &mut self.registered else {
            self.registered = Some(new());
            return None;
        };
        // If the clock has gone back, no tick may count as unknown for it, and no server as old.
        known.at = known.at.min(now);
        known.begun = known.begun.min(now);
        known.used = known.used.min(now);
        if *known.schedule == *ask.schedule {
            return None;
        }
        let replaces = begun > known.begun || known.used.plus(ABANDONED) < now;
        Some(if replaces { std::mem::replace(known, new()) } else { known.clone() })
    }

    /// Whether the store knew the job, with this schedule, before this tick.
    pub(super) fn registered_before(&self, ask: &TickClaim) -> bool {
        let same = self.registered.as_ref().filter(|registered| *registered.schedule == *ask.schedule);
        same.is_some_and(|registered| registered.at < ask.tick)
    }

    /// The request for a run by hand that no server has taken up yet.
    pub(super) fn waits_for(&self, now: Timestamp) -> Option<&Requested> {
        self.request.as_ref().filter(|request| request.answer.is_none() && request.until > now)
    }

    /// The newest lease started nothing: if it was for a request, that waits again.
    pub(super) fn ask_again(&mut self) {
        if let Some(request) = &mut self.request {
            request.answer.take_if(
                |answer| matches!(answer, RequestAnswer::Started { fence, .. } if *fence == self.fence),
            );
        }
    }

    /// How long a run takes, if there are enough to tell.
    pub(in crate::store) fn usual(&self) -> Option<Duration> {
        self.stats.mean().filter(|_| self.stats.successes >= ENOUGH_TO_TELL)
    }
}
