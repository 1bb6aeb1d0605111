//! The store contract as pure functions: one per transition, no I/O, the time passed in.
//!
//! The memory and file stores are thin shells around these functions. The Redis scripts are proved equal
//! to them by replaying random operations against both.

use std::time::Duration;

use singleton_jobs_policy::{Overlap, Timestamp};

use super::messages::{
    Claim, ClaimReply, Ending, ExtendReply, Holder, Lease, ReleaseReply, RunOutcome, RunRecord, Skip,
    SkipRecord, Taken, TickClaim, What, Won,
};

mod state;

pub use state::{Claimant, FORMAT, Lock, Mark, Started, State};

/// How many runs and how many skips a store remembers per job.
pub const REMEMBERED: usize = 100;

/// The fence in the release of a claim whose reply never came: whatever it won, if anything, is given back.
pub const UNKNOWN_FENCE: i64 = 0;

/// A server asks for the key. The order of the steps is the contract.
pub fn claim(state: &mut State, now: Timestamp, claim: &Claim) -> ClaimReply {
    state.drop_expired_lock(now);
    if state.claimant.as_ref().is_some_and(|claimant| claimant.token == claim.token) {
        return state.claimed_again(now);
    }
    let ask = match &claim.what {
        What::Tick(ask) => ask,
        What::Now => {
            return match state.holder(now) {
                Some(holder) => ClaimReply::Held(holder),
                None => state.win(now, claim, None, 1),
            };
        }
    };

    let due = ask.tick.plus(ask.delay);
    if due > now {
        return ClaimReply::Early(due.since(now));
    }
    if let Some(attempt) = state.attempts_to_take_over(now, ask) {
        return state.win(now, claim, Some(ask.tick), attempt + 1);
    }
    if let Some(decided) = state.decided(now, ask.tick) {
        return decided;
    }
    if state.paused {
        state.skip(now, claim, ask.tick, Skip::Paused);
        return ClaimReply::Paused;
    }
    if now > due.plus(ask.grace) {
        return ClaimReply::Late(now.since(due));
    }
    if let Some(holder) = state.holder(now) {
        if ask.overlap == Overlap::Skip {
            state.skip(now, claim, ask.tick, Skip::Held);
        }
        return ClaimReply::Held(holder);
    }
    state.win(now, claim, Some(ask.tick), 1)
}

/// The holder asks for more time.
pub fn extend(state: &mut State, now: Timestamp, lease: &Lease) -> ExtendReply {
    state.drop_expired_lock(now);
    let until = expiry(now, lease.ttl);
    let stranger = state.lock.as_ref().is_some_and(|lock| {
        lock.token != lease.token
            && state.claimant.as_ref().is_none_or(|claimant| claimant.token != lock.token)
    });
    let lock = Some(Lock { token: lease.token.clone(), until: Some(until) });
    match &mut state.claimant {
        Some(claimant) if claimant.token == lease.token && state.fence == lease.fence => {
            // The holder may know of a later expiry than a store that lost its last writes.
            let alive = !claimant.released && claimant.until.max(lease.until) > now;
            if !alive || stranger {
                return ExtendReply::Lost;
            }
            claimant.until = until;
            state.lock = lock;
            ExtendReply::Kept(until)
        }
        _ if lease.fence > state.fence && lease.until > now && !stranger => {
            state.restore(now, lease, until, false, false);
            state.lock = lock;
            ExtendReply::Restored(until)
        }
        _ => ExtendReply::Lost,
    }
}

/// The holder is done. One record per lease, however often this is sent.
pub fn release(state: &mut State, now: Timestamp, lease: &Lease, end: &Ending) -> ReleaseReply {
    state.drop_expired_lock(now);
    if state.lock.as_ref().is_some_and(|lock| lock.token == lease.token) {
        state.lock = None;
    }
    let finished = end.outcome.is_finished();
    match state.claimant.clone() {
        Some(claimant)
            if claimant.token == lease.token && [state.fence, UNKNOWN_FENCE].contains(&lease.fence) =>
        {
            if claimant.released {
                return ReleaseReply::NotHeld;
            }
            if let Some(started) = state.started.as_mut().filter(|s| Some(s.tick) == claimant.tick) {
                started.finished |= finished;
            }
            state.remember(now, &claimant, state.fence, end.clone());
            state.claimant = Some(Claimant { released: true, ..claimant });
            ReleaseReply::Released
        }
        _ if lease.fence > state.fence => {
            state.restore(now, lease, lease.until, true, finished);
            if let Some(claimant) = state.claimant.clone() {
                state.remember(now, &claimant, state.fence, end.clone());
            }
            ReleaseReply::Restored
        }
        _ => {
            // The lease's tick was started, whatever the store has forgotten since. Of an abandoned claim
            // nobody knows, and it started nothing.
            if lease.fence != UNKNOWN_FENCE {
                state.raise_mark(now, lease);
            }
            ReleaseReply::NotHeld
        }
    }
}

/// An operator pauses the job, or lets it go on.
pub fn set_paused(state: &mut State, paused: bool) {
    state.paused = paused;
}

/// An operator takes back a mark from the future: ticks up to now stay decided, later ones become free.
pub fn reset(state: &mut State, now: Timestamp) {
    if let Some(mark) = state.mark.as_mut().filter(|mark| mark.tick > now) {
        mark.tick = now;
    }
}

/// Whole milliseconds, rounded up, because that is what Redis can expire a key by.
fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let micros = now.plus(ttl).as_micros();
    Timestamp::from_micros(micros.saturating_add(999).div_euclid(1000).saturating_mul(1000))
}

impl State {
    fn drop_expired_lock(&mut self, now: Timestamp) {
        if self.lock.as_ref().and_then(|lock| lock.until).is_some_and(|until| until <= now) {
            self.lock = None;
        }
    }

    /// Who holds the key: the last claimant while its lease lasts, else a stranger who set the lock.
    fn holder(&self, now: Timestamp) -> Option<Holder> {
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
    fn claimed_again(&mut self, now: Timestamp) -> ClaimReply {
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
        })
    }

    /// How many servers have tried this tick, if it is unfinished and free for another.
    fn attempts_to_take_over(&self, now: Timestamp, ask: &TickClaim) -> Option<u32> {
        let started = self.started.filter(|started| started.tick == ask.tick)?;
        let open = !started.finished && !self.paused && started.attempt <= ask.takeovers;
        (open && self.holder(now).is_none()).then_some(started.attempt)
    }

    /// The answer for a tick at or below the mark.
    fn decided(&self, now: Timestamp, tick: Timestamp) -> Option<ClaimReply> {
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

    fn win(&mut self, now: Timestamp, claim: &Claim, tick: Option<Timestamp>, attempt: u32) -> ClaimReply {
        if let Some(gone) = self.claimant.take().filter(|claimant| !claimant.released) {
            let crashed = Ending { outcome: RunOutcome::Crashed, error: None };
            self.remember(now, &gone, self.fence, crashed);
        }
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
        });
        self.lock = Some(Lock { token: claim.token.clone(), until: Some(until) });
        if let Some(tick) = tick {
            self.started = Some(Started { tick, attempt, finished: false });
            if self.mark.as_ref().is_none_or(|mark| mark.tick <= tick) {
                self.mark = Some(Mark { tick, skip: None, server: claim.server.clone(), at: now });
            }
        }
        ClaimReply::Won(Won { fence: self.fence, attempt, since: now, until })
    }

    fn skip(&mut self, now: Timestamp, claim: &Claim, tick: Timestamp, reason: Skip) {
        self.mark = Some(Mark { tick, skip: Some(reason), server: claim.server.clone(), at: now });
        self.skips.push_front(SkipRecord { tick, reason, server: claim.server.clone(), at: now });
        self.skips.truncate(REMEMBERED);
    }

    fn remember(&mut self, now: Timestamp, run: &Claimant, fence: i64, end: Ending) {
        self.runs.push_front(RunRecord {
            tick: run.tick,
            server: run.server.clone(),
            fence,
            attempt: run.attempt,
            started: run.since,
            ended: now,
            outcome: end.outcome,
            error: end.error,
        });
        self.runs.truncate(REMEMBERED);
    }

    /// Puts back a lease that is newer than anything the store knows: it lost writes.
    fn restore(&mut self, now: Timestamp, lease: &Lease, until: Timestamp, released: bool, finished: bool) {
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
        });
        if let Some(tick) = lease.tick {
            self.started = Some(Started { tick, attempt: lease.attempt, finished });
        }
    }

    fn raise_mark(&mut self, now: Timestamp, lease: &Lease) {
        let Some(tick) = lease.tick else { return };
        if self.mark.as_ref().is_none_or(|mark| mark.tick < tick) {
            self.mark = Some(Mark { tick, skip: None, server: lease.server.clone(), at: now });
        }
    }
}
