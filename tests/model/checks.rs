//! Checks every applied swap, every start and every state against the invariants.

use crate::facts::{Fact, Notes, Violation};
use crate::protocol::Protocol;
use crate::real::SECOND;
use crate::small::{
    Answer, Ask, Contents, Fence, Message, Micros, NO_TICK, NO_TOKEN, Recorded, SmallChange, SmallLease,
    SmallLook, SmallRecord, SmallState, Tick, Token,
};
use crate::state::{History, Running, Server, State};

/// The token of a claim that is only tried, to see whether the job can run again.
const PROBE: Token = 200;

/// A swap that was applied.
#[derive(Clone, Copy)]
pub struct Applied<'a> {
    pub before: &'a Contents,
    pub after: &'a Contents,
    /// What it wrote; nothing if a look was enough.
    pub change: Option<SmallChange>,
    /// The store's clock.
    pub now: Micros,
    /// Whether the server that sent it is still there, and has the same claim or lease.
    pub alive: bool,
}

impl Applied<'_> {
    /// Whether it appended the record of a run.
    fn records_run(&self) -> bool {
        self.change.is_some_and(|change| change.records.is_some())
    }

    fn is_longer_than(&self, ttl: Micros) -> bool {
        // Expiries are rounded up to a millisecond.
        self.after.state().holder(self.now).is_some_and(|lease| lease.until >= self.now + ttl + 1000)
    }
}

pub fn bit(tick: Tick) -> u8 {
    1 << tick
}

impl Protocol {
    /// A claim's swap was applied.
    pub fn check_claim(
        &self,
        applied: Applied<'_>,
        ask: Ask,
        answer: Answer,
        history: &mut History,
        notes: &mut Notes,
    ) {
        let Applied { before, after, now, .. } = applied;
        let (old, new) = (before.state(), after.state());
        self.check_outcome(applied.before, applied.change.as_ref(), notes);
        match answer {
            Answer::Won(lease) if lease.fence == 0 => self.check_win(applied, ask, lease, history, notes),
            Answer::Won(_) => {
                notes.facts.push(Fact::WonAgain);
                notes.violated_if(before.foreign(now), Violation::StaleToken);
            }
            _ if new.marked() == ask.tick && old.marked() != ask.tick => {
                history.skipped |= bit(ask.tick);
                notes.fact_if(answer == Answer::Held, Fact::SkippedHeld);
                notes.fact_if(answer == Answer::Paused, Fact::SkippedPaused);
            }
            _ => {}
        }
    }

    fn check_win(
        &self,
        applied: Applied<'_>,
        ask: Ask,
        lease: SmallLease,
        history: &mut History,
        notes: &mut Notes,
    ) {
        let Applied { before, after, now, alive, .. } = applied;
        let (old, policy) = (before.state(), &self.configuration.policy);
        let fence = after.fence();
        if fence <= history.highest_fence && !(history.lost_writes && history.clock_jumped) {
            if policy.is_manual && history.clock_jumped {
                notes.facts.push(Fact::FenceAfterClockWentBack);
            } else {
                notes.violations.add(Violation::FenceNotHigher);
            }
        }
        let until = after.state().claimant.map_or(now, |lease| lease.until);
        if ask.tick != NO_TICK {
            let due = policy.due_of(ask.tick);
            let below_mark = ask.tick < old.marked() && ask.tick != old.last_started();
            notes.violated_if(below_mark, Violation::TwoStarts);
            notes.violated_if(due > now, Violation::BeforeDue);
            let was_skipped = history.skipped & bit(ask.tick) != 0;
            let was_finished = old.finished() && old.last_started() == ask.tick;
            let was_committed = history.committed & bit(ask.tick) != 0;
            let again = (was_skipped || was_finished || was_committed) && !history.lost_writes;
            notes.violated_if(again, Violation::DecidedTwice);
            let is_late = lease.attempt == 1 && now > due + policy.grace && !history.clock_jumped;
            let runs_late = policy.missed == jobs::schedule::Missed::RunOnce;
            notes.violated_if(is_late && !runs_late, Violation::OutOfTime);
            notes.fact_if(is_late && runs_late, Fact::RunLate);
            history.owner = ask.token;
        }
        let is_over = now > until - self.margin && !history.clock_jumped;
        notes.violated_if(is_over, Violation::OutOfTime);
        notes.violated_if(applied.is_longer_than(policy.ttl), Violation::LongerThanTtl);
        let others = |lease: &SmallLease| lease.token != ask.token;
        let overwrites = old.holder(now).as_ref().is_some_and(others) && !history.clock_jumped;
        notes.violated_if(overwrites || before.foreign(now), Violation::StaleToken);
        notes.facts.push(Fact::Won);
        notes.fact_if(lease.attempt > 1, Fact::TakenOver);
        notes.fact_if(!alive, Fact::LateClaimOfCrashedServer);
        let expired = old.claimant.as_ref().is_some_and(|lease| others(lease) && !old.released);
        notes.fact_if(expired, Fact::LeaseExpired);
        if applied.records_run()
            && let Some(crashed) = old.claimant
        {
            check_record(crashed.token, history, notes);
        }
        history.recorded &= !History::bit(ask.token);
        history.broken &= !History::bit(ask.token);
        history.was_succeeded |= history.lost_writes;
        if fence > history.highest_fence {
            (history.highest_fence, history.lost_newest) = (fence, false);
        }
    }

    /// The job was called for a tick.
    pub fn check_start(&self, lease: SmallLease, history: &mut History, notes: &mut Notes) {
        if lease.tick == NO_TICK {
            return;
        }
        let starts = &mut history.starts[usize::from(lease.tick)];
        let too_many = starts.count_ones() > self.configuration.policy.takeovers.into();
        let twice = *starts & bit(lease.attempt) != 0 || too_many;
        *starts |= bit(lease.attempt);
        notes.violated_if(twice && !history.lost_writes, Violation::TwoStarts);
        notes.fact_if(twice && history.lost_writes, Fact::DoubleStartAfterLostWrites);
    }

    /// An extension's swap was applied.
    pub fn check_extension(
        &self,
        applied: Applied<'_>,
        answer: Answer,
        lease: SmallLease,
        history: &mut History,
        notes: &mut Notes,
    ) {
        let Applied { before, after, now, alive, .. } = applied;
        let (old, loses_writes) = (before.state(), self.configuration.loses_writes());
        notes.violated_if(before.foreign(now), Violation::StaleToken);
        notes.violated_if(applied.is_longer_than(self.configuration.policy.ttl), Violation::LongerThanTtl);
        notes.violated_if(history.is_broken(lease.token), Violation::BadBreak);
        notes.fact_if(history.unbroken & History::bit(lease.token) != 0, Fact::BreakUndoneByLostWrites);
        if self.configuration.policy.shares_lock {
            notes.fact_if(before.live_lock(now).is_none(), Fact::LockVanishedUnderRun);
        }
        if let Answer::Kept(_) = answer {
            let newest = old.claimant.filter(|newest| newest.token == lease.token && !old.released);
            let last = newest.map(|newest| newest.until.max(if loses_writes { lease.until } else { 0 }));
            let in_time = last.is_some_and(|last| last > now) || history.clock_jumped;
            // A record that has expired, and that the store has not removed yet, is extended by a decision from before.
            let was_lost =
                loses_writes && lease.until > now && old.expires.is_some_and(|expires| expires <= now);
            notes.violated_if(!was_lost && (newest.is_none() || !in_time), Violation::StaleToken);
        } else {
            notes.facts.push(Fact::Restored);
            check_undone(before, after, notes);
            let older = alive && lease.fence < history.highest_fence;
            let ended = history.released & History::bit(lease.token) != 0;
            let is_manual = self.configuration.policy.is_manual;
            // Of a manual lock that was released no record is left. Of a lease that was lost with a second loss, neither.
            let is_limit = is_manual || history.lost_newest;
            notes.fact_if(older && is_limit, Fact::OlderHolderRestored);
            notes.violated_if(older && !is_limit, Violation::BadRestore);
            notes.violated_if(ended && (alive || !is_manual), Violation::BadRestore);
            notes.violated_if(lease.until <= now && !history.clock_jumped, Violation::BadRestore);
            restored(history, lease);
        }
    }

    /// A look has shown to a holder that its lease is lost.
    pub fn check_loss(&self, lease: SmallLease, now: Micros, state: &State, notes: &mut Notes) {
        let history = &state.history;
        let is_newest = lease.fence == history.highest_fence && lease.until > now;
        let refused = self.configuration.loses_writes() && is_newest;
        let has_reason = history.is_broken(lease.token) || state.store.foreign(now);
        notes.violated_if(refused && !has_reason, Violation::BadRestore);
        notes.facts.push(Fact::LeaseLost);
        notes.fact_if(history.is_broken(lease.token), Fact::BrokenLeaseLost);
    }

    /// A release's swap was applied, or a look has shown that there is nothing to release.
    pub fn check_release(
        &self,
        applied: Applied<'_>,
        lease: SmallLease,
        history: &mut History,
        notes: &mut Notes,
    ) {
        let Applied { before, after, now, .. } = applied;
        let (old, new) = (before.state(), after.state());
        self.check_outcome(applied.before, applied.change.as_ref(), notes);
        let stranger = before.live_lock(now).is_some_and(|lock| lock.token != lease.token);
        notes.violated_if(stranger && after.lock.is_none(), Violation::StaleToken);
        if let Some(claimant) = old.claimant {
            let is_own = claimant.token == lease.token;
            notes.violated_if(!is_own && !history.lost_writes && old != new, Violation::StaleToken);
            let others_end = !is_own
                && old.holder(now).is_some()
                && new.claimant.is_some_and(|newest| newest.token == claimant.token)
                && new.released;
            notes.violated_if(others_end, Violation::StaleToken);
            let finishes = is_own && new.finished() && !old.finished();
            notes.violated_if(finishes && history.owner != lease.token, Violation::StaleToken);
            notes.violated_if(is_own && old.finished() && !new.finished(), Violation::DecidedTwice);
        }
        if !self.configuration.policy.is_manual {
            check_undone(before, after, notes);
        }
        if applied.records_run() {
            check_record(lease.token, history, notes);
        }
        if self.configuration.loses_writes() {
            history.released |= History::bit(lease.token);
            let is_newest = lease.fence != 0 && lease.fence == history.highest_fence;
            notes.violated_if(is_newest && lease.tick > new.marked(), Violation::BadRestore);
            if after.fence() > before.fence() {
                restored(history, lease);
            }
        }
    }

    /// The outcome on record says whether the work of the run was committed.
    pub fn check_outcome(&self, before: &Contents, change: Option<&SmallChange>, notes: &mut Notes) {
        let Some(change) = change.filter(|_| self.configuration.policy.finishes) else { return };
        let committed = before.finished();
        let wrong = match change.records {
            None => false,
            Some(Recorded::Other) => committed,
            Some(Recorded::Committed) => !committed,
            // Of a run that was finished in a transaction.
            Some(Recorded::Succeeded) => change.ends_lease.is_some() && !committed,
        };
        notes.violated_if(wrong, Violation::WrongOutcome);
        notes.fact_if(change.records == Some(Recorded::Committed), Fact::CommittedRunRecorded);
    }

    /// Checks a state.
    pub fn check(&self, state: &State, notes: &mut Notes) {
        let (time, now, history) = (self.time(state), self.store_now(state), &state.history);
        let relies_on_lease =
            |running: &Running| running.deadline > time || (self.polls_without_check() && !running.stopped);
        let (mut valid, mut stopped) = (0, 0);
        for server in &state.servers {
            match server {
                Server::Running(running) if !running.begun || history.is_broken(running.lease.token) => {}
                Server::Running(running) if relies_on_lease(running) => valid += 1,
                Server::Running(_) => stopped += 1,
                _ => {}
            }
        }
        let may_overlap = history.lost_writes || history.clock_jumped;
        notes.violated_if(valid > 1 && !may_overlap, Violation::Overlap);
        let beside = valid > 0 && state.store.foreign(now);
        notes.violated_if(beside && !may_overlap && !history.lock_vanished, Violation::Overlap);
        notes.fact_if(valid > 0 && stopped > 0, Fact::StoppedHolderSucceeded);
        let holder = state.store.state().holder(now);
        let longest = now + self.configuration.policy.ttl + 1000;
        let is_long = holder.is_some_and(|lease| lease.until >= longest) && !history.clock_jumped;
        notes.violated_if(is_long, Violation::LongerThanTtl);
        notes.violated_if(!self.can_run_again(&state.store, now), Violation::Stuck);
    }

    /// Whether the next tick is won when everything that holds the key has expired, and the job is not paused.
    fn can_run_again(&self, store: &Contents, now: Micros) -> bool {
        let policy = &self.configuration.policy;
        // A crash that pauses the job would be recorded first.
        if policy.grace < 100 * SECOND || policy.pause_after > 0 {
            return true;
        }
        let state = store.state();
        let mark = if state.marked() == NO_TICK { 0 } else { policy.due_of(state.marked()) };
        let ends = state.holder(now).map_or(0, |lease| lease.until);
        let unlocks = store.lock.map_or(0, |lock| lock.until);
        let next = if policy.is_manual { 0 } else { policy.due_of(policy.extra_tick()) };
        let at = [now, mark, ends, unlocks, next].into_iter().max().unwrap_or(now);
        let record = store
            .record
            .map(|record| SmallRecord { state: SmallState { paused: false, ..record.state }, ..record });
        let tick = if policy.is_manual { NO_TICK } else { policy.extra_tick() };
        let ask = Ask { token: PROBE, tick, only_takes_over: false };
        let look = SmallLook { now: at, record, lock: store.live_lock(at) };
        matches!(self.real.decide(&look, Message::Claim(ask)).answer, Answer::Won(_))
    }
}

/// A lease was put back: if it is the newest one, the promise holds again.
fn restored(history: &mut History, lease: SmallLease) {
    let newest: Fence = history.highest_fence;
    if lease.tick != NO_TICK && lease.fence == newest && !history.was_succeeded {
        history.lost_writes = false;
    }
    history.owner = if lease.token == NO_TOKEN { history.owner } else { lease.token };
    history.skipped &= !bit(lease.tick);
}

/// Neither the mark nor the fence goes down.
fn check_undone(before: &Contents, after: &Contents, notes: &mut Notes) {
    let lowered = after.state().marked() < before.state().marked() || after.fence() < before.fence();
    notes.violated_if(lowered, Violation::BadRestore);
}

/// The run of a token was recorded.
pub fn check_record(token: Token, history: &mut History, notes: &mut Notes) {
    let twice = history.recorded & History::bit(token) != 0 && !history.lost_writes;
    notes.violated_if(twice, Violation::TwoRecords);
    history.recorded |= History::bit(token);
}
