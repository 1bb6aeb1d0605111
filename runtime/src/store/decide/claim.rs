//! Who becomes the holder of a key.

use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap, Timestamp};

use super::super::messages::{
    Claim, ClaimReply, Lease, Registered, RequestAnswer, Requested, Skip, SkipRecord, Taken, TickClaim,
    Unfinished, Verdict, What, Won,
};
use super::super::{Claimant, FenceChange, JobRecord, LockChange, Look, Mark, Started};
use super::draft::Draft;
use super::{Decision, expiry, slots};

/// A schedule with which no tick was won for so long is followed by no server.
const ABANDONED: Duration = Duration::from_secs(3600);

/// So many successful runs show how long one usually takes.
const ENOUGH_RUNS: u64 = 3;

/// A server claims the key. The order of the steps is the contract.
///
/// The fence of a lease that is won is the store's to compute: the caller takes it from the answer to the swap.
pub fn claim(look: &Look, claim: &Claim) -> Decision<Verdict> {
    let mut draft = Draft::new(look);
    if let What::Slot(of) = claim.what {
        return slots::claim(draft, claim, of);
    }
    if let Some(wait) = draft.not_due_for(claim) {
        return draft.finish(ClaimReply::Early(wait).into());
    }
    if draft.claimant.as_ref().is_some_and(|claimant| claimant.token == claim.token) {
        let decision = draft.claimed_again(claim);
        let unfinished = draft.left_unfinished(claim, &decision);
        return draft.finish(Verdict { decision, unfinished, other_schedule: None });
    }
    let verdict = match &claim.what {
        What::Tick(ask) => draft.claim_tick(claim, ask),
        What::Once => draft.claim_once(claim).into(),
        What::Requested(id) => draft.claim_requested(claim, id).into(),
        What::Now | What::Lock | What::Leader | What::Slot(_) => draft.claim_now(claim).into(),
    };
    draft.finish(verdict)
}

impl Draft<'_> {
    /// How long until the tick is due, also if it was claimed before the clock went back.
    fn not_due_for(&self, claim: &Claim) -> Option<Duration> {
        let What::Tick(ask) = &claim.what else { return None };
        let due = ask.tick.plus(ask.delay);
        (due > self.now).then(|| due.since(self.now))
    }

    fn claim_tick(&mut self, claim: &Claim, ask: &TickClaim) -> Verdict {
        let other_schedule = self.register(claim, ask);
        let decision = self.decide_tick(claim, ask);
        let unfinished = self.left_unfinished(claim, &decision);
        Verdict { decision, unfinished, other_schedule }
    }

    /// A tick that is due, by a claim that is new.
    fn decide_tick(&mut self, claim: &Claim, ask: &TickClaim) -> ClaimReply {
        if let Some(attempt) = self.attempts_to_take_over(ask) {
            return self.win(claim, Some(ask), attempt + 1, None);
        }
        if let Some(decided) = self.decided(ask.tick) {
            return decided;
        }
        if ask.only_takes_over {
            // The store has lost it: it must not begin anew.
            return ClaimReply::Late(self.now.since(ask.tick.plus(ask.delay)));
        }
        let registered = self.same_schedule(ask).filter(|registered| registered.at < ask.tick);
        let runs_if_missed = ask.missed == Missed::RunOnce
            && registered
                .is_some_and(|registered| registered.runs_missed_since.is_some_and(|since| since < ask.tick));
        let seen_coming = self.now.minus(ask.known_for) < ask.tick;
        if registered.is_none() && !seen_coming {
            return ClaimReply::Unregistered;
        }
        if self.paused {
            self.skip(claim, ask, Skip::Paused);
            return ClaimReply::Paused;
        }
        let due = ask.tick.plus(ask.delay);
        let in_time = due.plus(ask.grace);
        let late = self.now > in_time;
        // Only what the store itself remembers shows that no server ran it meanwhile: after a wipe it shows nothing.
        if late && !runs_if_missed {
            return ClaimReply::Late(self.now.since(due));
        }
        if let Some(holder) = self.key_holder() {
            // A missed tick waits for its one chance.
            if ask.overlap == Overlap::Skip && !late {
                self.skip(claim, ask, Skip::Held);
            }
            return ClaimReply::Held(holder);
        }
        self.win(claim, Some(ask), 1, (!late).then_some(in_time))
    }

    /// A run that another server requested. The first claim answers the request, in the same step.
    fn claim_requested(&mut self, claim: &Claim, id: &str) -> ClaimReply {
        if self.open_request().is_none_or(|request| request.id != id) {
            return ClaimReply::NotRequested;
        }
        let reply = self.claim_now(claim);
        let answer = match &reply {
            ClaimReply::Held(holder) => RequestAnswer::Held { server: holder.server.clone() },
            _ => RequestAnswer::Started { server: claim.server.to_string() },
        };
        self.limit_to(claim.ttl, None);
        if let Some(request) = &mut self.edit().request {
            request.answer = Some(answer);
        }
        reply
    }

    /// For work that is done once: a mark that it was done is in the way, too.
    fn claim_once(&mut self, claim: &Claim) -> ClaimReply {
        match self.done.filter(|done| done.until > self.now) {
            Some(done) => ClaimReply::Done(done.at),
            None => self.claim_now(claim),
        }
    }

    /// For no tick: only a holder is in the way.
    fn claim_now(&mut self, claim: &Claim) -> ClaimReply {
        match self.key_holder() {
            Some(holder) => ClaimReply::Held(holder),
            None => self.win(claim, None, 1, None),
        }
    }

    /// The claimant repeats its claim because an answer was lost. Only a swap confirms that it still holds the key: a look
    /// may come from a primary that has been demoted, or show a write that is not durable yet.
    fn claimed_again(&mut self, claim: &Claim) -> ClaimReply {
        let Some(claimant) = self.claimant.clone() else { return ClaimReply::Lost };
        let foreign = self.lock.is_some_and(|lock| lock.token != claimant.token);
        if !claimant.holds(self.now) || foreign {
            return ClaimReply::Lost;
        }
        self.edit();
        self.limit_to(claim.ttl, Some(claimant.until.minus(Duration::from_micros(1))));
        self.change.lock = LockChange::Set { token: claimant.token, until: claimant.until };
        self.change.grants_lease = true;
        ClaimReply::Won(self.won(claimant.tick, claimant.attempt, claimant.since, claimant.until))
    }

    /// A lease that was won for this tick, or for none.
    fn won(&self, tick: Option<Timestamp>, attempt: u32, since: Timestamp, until: Timestamp) -> Won {
        Won {
            fence: self.fence,
            attempt,
            takeovers: tick.and_then(|tick| self.started_at(tick)).map_or(0, |started| started.takeovers),
            since,
            until,
            missed: tick.map(|_| self.missed.clone()).unwrap_or_default(),
            usual: self.stats.mean().filter(|_| self.stats.successes >= ENOUGH_RUNS),
        }
    }

    fn win(
        &mut self,
        claim: &Claim,
        ask: Option<&TickClaim>,
        attempt: u32,
        in_time: Option<Timestamp>,
    ) -> ClaimReply {
        self.record_crash(claim.remember);
        self.outlive(claim.what.kind(), claim.ttl);
        if let Some(ask) = ask {
            self.start_tick(claim, ask, attempt);
        }
        let until = expiry(self.now, claim.ttl);
        let won = self.won(ask.map(|ask| ask.tick), attempt, self.now, until);
        self.edit().claimant = Some(Claimant::of(Lease::won(claim.clone(), &won)));
        self.limit_to(claim.ttl, in_time);
        self.change.fence = FenceChange::Next;
        self.change.lock = LockChange::Set { token: claim.token.clone(), until };
        self.change.grants_lease = true;
        ClaimReply::Won(won)
    }

    /// Moves the mark to a tick that was won.
    fn start_tick(&mut self, claim: &Claim, ask: &TickClaim, attempt: u32) {
        let (now, tick) = (self.now, ask.tick);
        let takeovers = self.started_at(tick).map_or(ask.takeovers, |started| started.takeovers);
        if attempt == 1 {
            self.note_missed(ask);
        }
        let raises = self.mark.as_ref().is_none_or(|mark| mark.tick <= tick);
        let state = self.edit();
        state.started = Some(Started { tick, attempt, finished: false, takeovers });
        if raises {
            state.mark = Some(Mark { tick, skip: None, server: claim.server.clone(), at: now });
        }
        if let Some(registered) = &mut state.registered
            && *registered.schedule == *ask.schedule
        {
            registered.used = now;
        }
    }

    /// The tick is skipped for all servers.
    fn skip(&mut self, claim: &Claim, ask: &TickClaim, reason: Skip) {
        let (at, tick) = (self.now, ask.tick);
        self.note_missed(ask);
        let state = self.edit();
        state.mark = Some(Mark { tick, skip: Some(reason), server: claim.server.clone(), at });
        state.expires = None;
        let server = claim.server.to_string();
        self.change.records.push(JobRecord::Skip(SkipRecord { tick, reason, server, at }));
        self.change.keep = claim.remember;
        self.limit_to(claim.ttl, None);
    }

    /// Ticks between the mark and this one were missed, if the schedule has any.
    fn note_missed(&mut self, ask: &TickClaim) {
        let registered = self.registered.as_ref().map(|registered| registered.at);
        let Some(after) = registered.max(self.mark.as_ref().map(|mark| mark.tick)) else { return };
        if ask.previous.is_some_and(|previous| previous > after) {
            self.add_gap(after, ask.tick, None);
        }
    }

    /// How many servers have started this tick, if it is unfinished and free for another.
    fn attempts_to_take_over(&self, ask: &TickClaim) -> Option<u32> {
        let unfinished = self.unfinished(ask.takeovers).filter(|unfinished| unfinished.tick == ask.tick)?;
        let free = unfinished.remaining == Some(Duration::ZERO);
        self.started.filter(|_| free).map(|started| started.attempt)
    }

    /// The last started tick, if it may have to be taken over, by the policy that it was started under. A pause only
    /// delays that.
    fn unfinished(&self, takeovers: u32) -> Option<Unfinished> {
        let may_be_taken_over =
            |started: &Started| !started.finished && started.attempt <= takeovers.min(started.takeovers);
        let started = self.started.filter(may_be_taken_over)?;
        let remaining = self.key_holder().map_or(Some(Duration::ZERO), |holder| holder.remaining);
        let remaining = remaining.filter(|_| !self.paused);
        (started.tick <= self.now).then_some(Unfinished { tick: started.tick, remaining })
    }

    /// The same, for a claim that did not win.
    fn left_unfinished(&self, claim: &Claim, decision: &ClaimReply) -> Option<Unfinished> {
        match (&claim.what, decision) {
            (What::Tick(ask), refusal) if !matches!(refusal, ClaimReply::Won(_)) => {
                self.unfinished(ask.takeovers)
            }
            _ => None,
        }
    }

    /// The reply for a tick at or below the mark.
    fn decided(&self, tick: Timestamp) -> Option<ClaimReply> {
        let mark = self.mark.as_ref().filter(|mark| mark.tick >= tick)?;
        if mark.tick > self.now {
            return Some(ClaimReply::Ahead(mark.tick));
        }
        if mark.tick > tick {
            return Some(ClaimReply::Superseded(mark.tick));
        }
        let server = mark.server.to_string();
        Some(ClaimReply::Taken(match mark.skip {
            Some(reason) => Taken::Skipped(SkipRecord { tick, reason, server, at: mark.at }),
            None => Taken::Started {
                server,
                since: mark.at,
                finished: self.started_at(tick).is_some_and(|started| started.finished),
            },
        }))
    }

    /// Remembers the schedule of the newest server, and returns one that differs from the asking server's.
    ///
    /// While old and new servers run side by side the old ones change nothing.
    fn register(&mut self, claim: &Claim, ask: &TickClaim) -> Option<Registered> {
        let now = self.now;
        let begun = now.minus(ask.known_for);
        let runs_missed = ask.missed == Missed::RunOnce;
        let new = || Registered {
            schedule: ask.schedule.to_string(),
            at: now,
            server: claim.server.to_string(),
            begun,
            used: now,
            runs_missed_since: runs_missed.then_some(now),
        };
        let Some(known) = &self.registered else {
            self.replace_registered(claim, new());
            return None;
        };
        let mut known = known.clone();
        // If the clock has gone back, no tick may count as unknown for it, and no server as old.
        known.at = known.at.min(now);
        known.begun = known.begun.min(now);
        known.used = known.used.min(now);
        let is_newer = begun > known.begun || known.used.plus(ABANDONED) < now;
        if *known.schedule != *ask.schedule {
            if is_newer {
                self.close_registration();
                self.replace_registered(claim, new());
            }
            return Some(known);
        }
        if is_newer && runs_missed != known.runs_missed_since.is_some() {
            known.runs_missed_since = runs_missed.then_some(now);
            known.begun = begun;
        }
        if self.registered.as_ref() != Some(&known) {
            self.replace_registered(claim, known);
        }
        None
    }

    fn replace_registered(&mut self, claim: &Claim, registered: Registered) {
        let state = self.edit();
        state.registered = Some(registered);
        state.expires = None;
        self.limit_to(claim.ttl, None);
    }

    /// The registration, if it has the schedule that is asked with.
    fn same_schedule(&self, ask: &TickClaim) -> Option<&Registered> {
        self.registered.as_ref().filter(|registered| *registered.schedule == *ask.schedule)
    }

    /// The request for a manual run that no server has answered yet.
    pub(super) fn open_request(&self) -> Option<&Requested> {
        self.request.as_ref().filter(|request| request.answer.is_none() && request.until > self.now)
    }
}
