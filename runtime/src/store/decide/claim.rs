//! Decides claims.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap, Schedule, Timestamp};

use super::super::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, Ending, FenceChange, Gap, JobRecord, Lease, LockChange,
    Look, RegisteredSchedule, RequestAnswer, RunDetails, RunOutcome, RunRequest, Skip, SkipHolder,
    SkipRecord, StartedTick, Taken, TickClaim, TickMark, Trigger, UnfinishedTick, WonClaim,
};
use super::transition::Transition;
use super::{Decision, expiry, slots};
use crate::util::planted::{PlantedBug, is_planted};

/// Number of successful runs from which a usual duration is derived.
const ENOUGH_RUNS: u64 = 3;

/// Decides a claim. The order of the checks is part of the contract.
///
/// The store computes the fence of a lease that is won: the caller takes it from the answer to the swap.
pub fn claim(look: &Look, claim: &Claim) -> Decision<ClaimReply> {
    let mut transition = Transition::new(look);
    transition.change.keep = claim.remember;
    if let ClaimPurpose::Slot(of) = claim.what {
        return slots::claim(transition, claim, of);
    }
    if let Some(wait) = transition.not_due_for(claim) {
        return transition.finish(ClaimDecision::Early(wait).into());
    }
    let mut other_schedule = None;
    let decision = match &claim.what {
        _ if transition.claimant.as_ref().is_some_and(|own| own.token == claim.token) => {
            transition.claimed_again(claim)
        }
        ClaimPurpose::Tick(ask) => {
            other_schedule = transition.register(claim, ask);
            transition.decide_tick(claim, ask)
        }
        ClaimPurpose::Requested(id) => transition.claim_requested(claim, id),
        _ => transition.claim_now(claim),
    };
    let unfinished = match (&claim.what, &decision) {
        (_, ClaimDecision::Won(_)) => None,
        (ClaimPurpose::Tick(ask), _) => transition.unfinished(ask.takeovers),
        _ => None,
    };
    transition.finish(ClaimReply { decision, unfinished, other_schedule })
}

impl Transition<'_> {
    /// Returns the time until the tick is due, even if it was claimed before the clock went back.
    fn not_due_for(&self, claim: &Claim) -> Option<Duration> {
        let ClaimPurpose::Tick(ask) = &claim.what else { return None };
        let due = ask.tick + ask.delay;
        (due > self.now && !is_planted(PlantedBug::StartsEarly)).then(|| due.since(self.now))
    }

    /// Decides a new claim of a tick that is due.
    fn decide_tick(&mut self, claim: &Claim, ask: &TickClaim) -> ClaimDecision {
        if let Some(attempt) = self.attempts_to_take_over(ask) {
            return self.win(claim, Some(ask), attempt + 1, None);
        }
        if let Some(decided) = self.decided(ask.tick) {
            return decided;
        }
        self.end_expired_pause(claim);
        if let Some(decided) = self.decided(ask.tick) {
            return decided;
        }
        if ask.only_takes_over {
            // The store has lost the tick: it must not be started again.
            return ClaimDecision::Late(self.now.since(ask.tick + ask.delay));
        }
        let counts = |registered: &&RegisteredSchedule| {
            registered.schedule == ask.schedule && registered.at < ask.tick
        };
        let registered = self.registered.as_ref().filter(counts);
        let runs_since = registered.and_then(|registered| registered.runs_missed_since);
        let runs_if_missed =
            ask.missed == Missed::RunOnce && runs_since.is_some_and(|since| since < ask.tick);
        let seen_coming = self.now - ask.known_for < ask.tick;
        if registered.is_none() && !seen_coming {
            return ClaimDecision::Unregistered;
        }
        self.record_crash_that_pauses(claim);
        let skipped = |reason, at| SkipRecord::new(ask.tick, reason, &*claim.server, at);
        if let Some(pause) = self.pause.clone() {
            self.skip(
                claim,
                ask,
                SkipRecord { pause: Some(pause.clone()), ..skipped(Skip::Paused, self.now) },
            );
            return ClaimDecision::Paused(pause);
        }
        let due = ask.tick + ask.delay;
        let in_time = due + ask.grace;
        let late = self.now > in_time;
        // Only a registration in the store proves that no server ran the tick: after a wipe there is none.
        if late && !runs_if_missed {
            return ClaimDecision::Late(self.now.since(due));
        }
        if let Some(holder) = self.key_holder() {
            // A missed tick is not skipped: it is run once, later.
            if ask.overlap == Overlap::Skip && !late {
                let in_the_way = SkipHolder {
                    server: holder.server.clone(),
                    since: holder.since,
                    tick: self.holder(self.now).and_then(|lease| lease.tick),
                };
                self.skip(
                    claim,
                    ask,
                    SkipRecord { holder: Some(in_the_way), ..skipped(Skip::Held, self.now) },
                );
            }
            return ClaimDecision::Held(holder);
        }
        self.win(claim, Some(ask), 1, (!late).then_some(in_time))
    }

    /// Decides the claim of a requested run. The first claim answers the request, in the same swap.
    fn claim_requested(&mut self, claim: &Claim, id: &str) -> ClaimDecision {
        let Some(request) = self.open_request().filter(|request| request.id == id) else {
            return ClaimDecision::NotRequested;
        };
        let details = RunDetails { by: Some(request.by.as_str().into()), ..claim.details.clone() };
        let reply = self.claim_now(&Claim { details, ..claim.clone() });
        let answer = match &reply {
            ClaimDecision::Held(holder) => RequestAnswer::Held { server: holder.server.clone() },
            _ => RequestAnswer::Started { server: claim.server.to_string() },
        };
        self.limit_to(claim.ttl, None);
        if let Some(request) = &mut self.edit().request {
            request.answer = Some(answer);
        }
        reply
    }

    /// Decides a claim without a tick: refused only if the key is held, or the work is marked as done.
    fn claim_now(&mut self, claim: &Claim) -> ClaimDecision {
        match (self.done.filter(|done| done.until > self.now), self.key_holder()) {
            (Some(done), _) if matches!(claim.what, ClaimPurpose::Once) => ClaimDecision::Done(done.at),
            (_, Some(holder)) => ClaimDecision::Held(holder),
            (_, None) => self.win(claim, None, 1, None),
        }
    }

    /// Decides a repeated claim, whose first answer was lost. Only a swap confirms that it still holds the key: a look may come
    /// from a primary that has been demoted, or show a write that is not durable yet.
    fn claimed_again(&mut self, claim: &Claim) -> ClaimDecision {
        match self.held_lease() {
            Some(lease) if self.foreign_lock().is_none() => {
                self.confirm(claim, lease.until);
                self.change.lock = LockChange::Set { token: lease.token.clone(), until: lease.until };
                self.won(lease)
            }
            _ => ClaimDecision::Lost,
        }
    }

    /// Writes a lease once more, unchanged.
    pub(super) fn confirm(&mut self, claim: &Claim, until: Timestamp) {
        self.edit();
        self.limit_to(claim.ttl, Some(until - Duration::from_micros(1)));
        self.change.grants_lease = true;
    }

    /// The reply to a claim that has won.
    pub(super) fn won(&self, lease: Lease) -> ClaimDecision {
        let missed = lease.tick.map(|_| self.missed.clone()).unwrap_or_default();
        let usual = self.stats.mean().filter(|_| self.stats.successes >= ENOUGH_RUNS);
        ClaimDecision::Won(WonClaim { lease, missed, usual })
    }

    fn win(
        &mut self,
        claim: &Claim,
        ask: Option<&TickClaim>,
        attempt: u32,
        in_time: Option<Timestamp>,
    ) -> ClaimDecision {
        if let Some(crashed) = self.newest().filter(|_| !self.released) {
            let before = (self.stats.failures_in_row, self.pause.clone());
            let (ended, outcome) = self.end_without_release(&crashed);
            self.record_run(&crashed, ended, &Ending::of(outcome, claim.remember));
            if attempt > 1 {
                // The takeover decides whether the tick has failed.
                let state = self.edit();
                (state.stats.failures_in_row, state.pause) = before;
            }
        }
        let until = expiry(self.now, claim.ttl);
        let mut lease = Lease { attempt, ..Lease::claimed(claim, self.now, until) };
        if ask.is_some() && attempt > 1 {
            lease.trigger = Trigger::Takeover;
        } else if ask.is_some() && in_time.is_none() {
            lease.trigger = Trigger::Missed;
        }
        self.outlive(lease.kind, claim.ttl);
        if let Some(ask) = ask {
            let started = self.started_at(ask.tick);
            lease.takeovers = started.map_or(ask.takeovers, |started| started.takeovers);
            self.start_tick(claim, ask, &lease);
        }
        self.grant(lease.clone());
        self.limit_to(claim.ttl, in_time);
        self.change.fence = FenceChange::Next;
        self.change.lock = LockChange::Set { token: claim.token.clone(), until };
        self.change.grants_lease = true;
        self.won(lease)
    }

    /// Moves the mark to a tick that was won.
    fn start_tick(&mut self, claim: &Claim, ask: &TickClaim, &Lease { attempt, takeovers, .. }: &Lease) {
        let (now, tick) = (self.now, ask.tick);
        if attempt == 1 {
            self.decide_up_to(claim, ask);
        }
        let raises = self.mark.as_ref().is_none_or(|mark| mark.tick <= tick);
        let state = self.edit();
        state.started = Some(StartedTick { tick, attempt, finished: false, takeovers });
        if raises {
            state.mark = Some(TickMark { tick, skip: None, server: claim.server.clone(), at: now });
        }
        if let Some(registered) = &mut state.registered
            && registered.schedule == ask.schedule
        {
            registered.used = now;
        }
    }

    /// The tick is skipped for all servers.
    fn skip(&mut self, claim: &Claim, ask: &TickClaim, record: SkipRecord) {
        let (at, tick) = (self.now, ask.tick);
        self.decide_up_to(claim, ask);
        let state = self.edit();
        state.mark = Some(TickMark { tick, skip: Some(record.reason), server: claim.server.clone(), at });
        state.expires = None;
        self.change.records.push(JobRecord::Skip(record));
        self.limit_to(claim.ttl, None);
    }

    /// Ends a pause that is over, at the instant at which it ended.
    fn end_expired_pause(&mut self, claim: &Claim) {
        let ended = self.pause.as_ref().and_then(|pause| pause.until).filter(|until| *until <= self.now);
        if let Some(until) = ended {
            self.end_pause(until, &claim.server);
            self.limit_to(claim.ttl, None);
        }
    }

    /// Records the crash of the last run now, rather than with the next win, if it is a failure that pauses the job.
    fn record_crash_that_pauses(&mut self, claim: &Claim) {
        let is_crash = !self.released && self.committed.is_none();
        let crashed = self.newest().filter(|lease| is_crash && lease.until <= self.now);
        let pauses = |lease: &Lease| {
            let failures = self.stats.failures_in_row.saturating_add(1);
            (1..=failures).contains(&lease.details.pause_after)
        };
        if let Some(crashed) = crashed.filter(pauses) {
            self.record_run(&crashed, crashed.until, &Ending::of(RunOutcome::Crashed, claim.remember));
            self.edit().released = true;
            self.end_lease();
        }
    }

    /// Records that the tick is decided, and that the ticks between the mark and this one were missed.
    fn decide_up_to(&mut self, claim: &Claim, ask: &TickClaim) {
        let claimable_until = Some((ask.tick + ask.delay) + ask.grace).max(self.claimable_until);
        self.edit().claimable_until = claimable_until;
        let registered = self.registered.as_ref().map(|registered| registered.at);
        let Some(after) = registered.max(self.mark.as_ref().map(|mark| mark.tick)) else { return };
        let own = ask.previous.filter(|previous| *previous > after).map(|_| ask.schedule.clone());
        // With its schedule: a server that has another one may report it.
        if let Some(schedule) = self.missed_by_others(ask, after).or(own) {
            self.add_gap(Gap { after, before: ask.tick, schedule: Some(schedule) }, &claim.server);
        }
    }

    /// Returns the registered schedule, if it is another one than the asking server's and has a tick between this instant and
    /// the server's tick. Until a deploy is complete, the ticks of both schedules move one mark.
    fn missed_by_others(&self, ask: &TickClaim, after: Timestamp) -> Option<Arc<str>> {
        let registered = self.registered.as_ref().filter(|registered| registered.schedule != ask.schedule)?;
        let next = Schedule::from_text(&registered.schedule)?.next_after(after)?;
        (next < ask.tick).then(|| registered.schedule.clone())
    }

    /// Returns the number of servers that have started this tick, if it is unfinished and may be taken over now.
    fn attempts_to_take_over(&self, ask: &TickClaim) -> Option<u32> {
        let unfinished = self.unfinished(ask.takeovers).filter(|unfinished| unfinished.tick == ask.tick)?;
        let free = unfinished.remaining == Some(Duration::ZERO) || is_planted(PlantedBug::TakesOverTooSoon);
        self.started.filter(|_| free).map(|started| started.attempt)
    }

    /// Returns the last started tick, if it may have to be taken over by the policy under which it was started. A pause only
    /// delays that.
    fn unfinished(&self, takeovers: u32) -> Option<UnfinishedTick> {
        let may_be_taken_over = |started: &StartedTick| {
            // No attempt follows the last number.
            let has_next = started.attempt < u32::MAX;
            !started.finished && has_next && started.attempt <= takeovers.min(started.takeovers)
        };
        let started = self.started.filter(may_be_taken_over)?;
        let remaining = self.key_holder().map_or(Some(Duration::ZERO), |holder| holder.remaining);
        let remaining = remaining.filter(|_| self.active_pause(self.now).is_none());
        (started.tick <= self.now).then_some(UnfinishedTick { tick: started.tick, remaining })
    }

    /// The reply for a tick at or below the mark.
    fn decided(&self, tick: Timestamp) -> Option<ClaimDecision> {
        let mark = self.mark.as_ref().filter(|mark| mark.tick >= tick)?;
        if mark.tick > self.now {
            return Some(ClaimDecision::Ahead(mark.tick));
        }
        if mark.tick > tick {
            return Some(ClaimDecision::Superseded(mark.tick));
        }
        let server = mark.server.to_string();
        Some(ClaimDecision::Taken(match mark.skip {
            Some(reason) => Taken::Skipped(SkipRecord::new(tick, reason, server, mark.at)),
            None => Taken::Started {
                server,
                since: mark.at,
                finished: self.started_at(tick).is_some_and(|started| started.finished),
            },
        }))
    }

    /// The request for a manual run that no server has answered yet.
    pub(super) fn open_request(&self) -> Option<&RunRequest> {
        self.request.as_ref().filter(|request| request.answer.is_none() && request.until > self.now)
    }
}
