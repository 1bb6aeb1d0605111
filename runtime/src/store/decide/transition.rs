//! A transition of a key: the state in a look, and the change to it.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::request_timeout;
use singleton_jobs_policy::{Schedule, Timestamp};

use super::super::{
    Change, DoneMark, EndedLease, Ending, FinishMark, Gap, Holder, JobRecord, KeyState, Lease, LeaseKind,
    LockChange, Look, Pause, RunOutcome, RunRecord, SharedLock, Skip, SkipRecord, StartedTick, TickMark,
};
use super::{Decision, UNKNOWN_FENCE, expiry};
use crate::store::record::key_state::as_micros;
use crate::util::planted::{PlantedBug, is_planted};

/// Number of gaps of missed ticks that wait to be reported. Beyond it the oldest are merged.
const KEPT_GAPS: usize = 16;

/// Characters of an error in the reason of a pause.
const SHOWN_OF_AN_ERROR: usize = 200;

/// The state in a look, without expired parts, and the change to it.
pub(super) struct Transition<'a> {
    pub(super) now: Timestamp,
    /// The fence of the newest lease in the record.
    pub(super) fence: i64,
    /// The lock that other programs see.
    pub(super) lock: Option<&'a SharedLock>,
    state: Cow<'a, KeyState>,
    state_changed: bool,
    /// Instant at which a transaction of the application committed the work of the newest lease, if one did.
    pub(super) committed: Option<Timestamp>,
    pub(super) change: Change,
}

impl Deref for Transition<'_> {
    type Target = KeyState;

    fn deref(&self) -> &KeyState {
        &self.state
    }
}

impl<'a> Transition<'a> {
    pub(super) fn new(look: &'a Look) -> Self {
        let now = look.now;
        let mut transition = Self {
            now,
            fence: look.fence,
            lock: look.lock.as_ref().filter(|lock| lock.until.is_none_or(|until| until > now)),
            state: Cow::Borrowed(&*look.state),
            state_changed: false,
            committed: None,
            change: Change::default(),
        };
        if let Some(mark) = look.finished {
            transition.apply_finish(mark);
        }
        if transition.expires.is_some_and(|expires| expires <= now) {
            // An expired record counts as none, even if the store has not removed it yet.
            transition.state = Cow::Owned(KeyState::default());
            transition.fence = 0;
        }
        if let Some(newest) = transition.slots.iter().position(|slot| slot.fence == UNKNOWN_FENCE) {
            transition.state.to_mut().slots[newest].fence = transition.fence;
        }
        transition
    }

    /// Writes down what a transaction of the application committed under the newest lease.
    fn apply_finish(&mut self, mark: FinishMark) {
        self.committed = Some(mark.at);
        if is_planted(PlantedBug::IgnoresFinish) {
            return;
        }
        let Some(newest) = self.state.claimant.as_ref() else { return };
        let (kind, tick) = (newest.kind, newest.tick);
        let state = self.state.to_mut();
        if let Some(started) = state.started.as_mut().filter(|started| Some(started.tick) == tick) {
            started.finished = true;
        }
        if let (LeaseKind::Once, Some(until)) = (kind, mark.done_until) {
            state.done = Some(DoneMark { at: mark.at, until });
            state.expires = state.expires.map(|expires| expires.max(until));
        }
    }

    /// The swap ends the newest lease: it is refused if a transaction commits the work of that lease meanwhile.
    pub(super) fn end_lease(&mut self) {
        self.change.ends_lease = Some(EndedLease { is_finished: self.committed.is_some() });
    }

    /// Returns the state for a change.
    pub(super) fn edit(&mut self) -> &mut KeyState {
        self.state_changed = true;
        self.state.to_mut()
    }

    /// Ends the transition with a reply, and the change if there is one.
    pub(super) fn finish<T>(self, reply: T) -> Decision<T> {
        let Self { state, state_changed, mut change, .. } = self;
        if !state_changed && change.lock == LockChange::Leave {
            return Decision { reply, change: None };
        }
        change.state = Some(Arc::new(state.into_owned()));
        Decision { reply, change: Some(change) }
    }

    /// Ends the transition with a reply, and deletes the record.
    pub(super) fn finish_without_record<T>(mut self, reply: T) -> Decision<T> {
        self.end_lease();
        Decision { reply, change: Some(Change { state: None, ..self.change }) }
    }

    /// Limits the swap to one response timeout from now: a later answer would be too late. A clock that has jumped back must
    /// not start a run early.
    pub(super) fn limit_to(&mut self, ttl: Duration, last: Option<Timestamp>) {
        let soon = self.now + request_timeout(ttl);
        self.change.not_before = Some(self.now);
        self.change.not_after = Some(last.map_or(soon, |last| last.min(soon)));
    }

    /// Returns the holder of the key: the last claimant while its lease lasts, or else another program that set the lock.
    pub(super) fn key_holder(&self) -> Option<Holder> {
        if let Some(lease) = self.holder(self.now) {
            return Some(lease.holder(self.now));
        }
        let remaining = self.foreign_lock()?.until.map(|until| until.since(self.now));
        Some(Holder { server: None, since: None, remaining })
    }

    /// Returns the lock if it is not that of the last claimant.
    pub(super) fn foreign_lock(&self) -> Option<&SharedLock> {
        let claimant = self.claimant.as_ref().map(|lease| &lease.token);
        self.lock.filter(|lock| Some(&lock.token) != claimant)
    }

    /// Returns the lease that was won last, with its fence.
    pub(super) fn newest(&self) -> Option<Lease> {
        self.claimant.as_ref().map(|lease| Lease { fence: self.fence, ..lease.clone() })
    }

    /// Returns the lease that was won last, if it holds the key.
    pub(super) fn held_lease(&self) -> Option<Lease> {
        self.holder(self.now).and_then(|_| self.newest())
    }

    /// Writes a lease as the newest one.
    pub(super) fn grant(&mut self, lease: Lease) {
        self.end_lease();
        let state = self.edit();
        state.claimant = Some(Lease { fence: UNKNOWN_FENCE, reported: None, ..lease });
        (state.released, state.broken_by, state.cancelled_by) = (false, None, None);
    }

    /// Sets the expiry of the record: never for a job, one ttl after the lease for another key.
    pub(super) fn outlive(&mut self, kind: LeaseKind, ttl: Duration) {
        match kind {
            LeaseKind::Run => self.edit().expires = None,
            _ => self.stay_until(expiry(self.now, ttl.saturating_mul(2))),
        }
    }

    pub(super) fn stay_until(&mut self, instant: Timestamp) {
        let expires = self.expires.map(|expires| expires.max(instant));
        self.edit().expires = expires;
    }

    /// Returns the tick that was started last, if it is this one.
    pub(super) fn started_at(&self, tick: Timestamp) -> Option<StartedTick> {
        self.started.filter(|started| started.tick == tick)
    }

    /// Marks the tick as finished: no server takes it over.
    pub(super) fn finish_tick(&mut self, tick: Option<Timestamp>) {
        if tick.and_then(|tick| self.started_at(tick)).is_some()
            && let Some(started) = &mut self.edit().started
        {
            started.finished = true;
        }
    }

    /// Marks the key's work as done, if the ending asks for that.
    pub(super) fn mark_done(&mut self, end: &Ending) {
        if let Some(done_for) = end.done_for {
            let until = expiry(self.now, done_for);
            self.edit().done = Some(DoneMark { at: self.now, until });
            self.stay_until(until);
        }
    }

    /// Raises the mark to the lease's tick, which was started even if the store has lost that. An operator's reset wins.
    pub(super) fn raise_mark(&mut self, lease: &Lease) {
        let Some(tick) = lease.tick else { return };
        let reset = self.reset_fence.is_some_and(|reset| lease.fence <= reset);
        if !reset && self.mark.as_ref().is_none_or(|mark| mark.tick < tick) {
            let mark = TickMark { tick, skip: None, server: lease.server.clone(), at: self.now };
            self.edit().mark = Some(mark);
            self.edit().expires = None;
        }
    }

    /// Records that the ticks after `after` and before `before` were missed, on behalf of a server or an operator.
    pub(super) fn add_gap(&mut self, gap: Gap, by: &str) {
        let first =
            gap.schedule.as_deref().and_then(Schedule::from_text).and_then(|it| it.next_after(gap.after));
        if let Some(tick) = first.filter(|tick| *tick < gap.before) {
            let record = SkipRecord::new(tick, Skip::Missed, by, self.now);
            self.change.records.push(JobRecord::Skip(SkipRecord { missed: Some(gap.clone()), ..record }));
        }
        let missed = &mut self.edit().missed;
        missed.push(gap);
        if missed.len() > KEPT_GAPS {
            // Reports too many ticks rather than too few.
            let oldest = missed.remove(0);
            missed[0].after = oldest.after;
        }
    }

    /// Records the ticks that were missed under the current registration until this instant, before it is replaced.
    pub(super) fn close_registration(&mut self, before: Timestamp, by: &str) {
        let Some(registered) = self.registered.clone() else { return };
        let after = registered.at.max(self.mark.as_ref().map_or(registered.at, |mark| mark.tick));
        if after < before {
            self.add_gap(Gap { after, before, schedule: Some(registered.schedule) }, by);
        }
    }

    /// Ends a pause at this instant. No earlier tick runs any more.
    pub(super) fn end_pause(&mut self, at: Timestamp, by: &str) {
        self.close_registration(at, by);
        self.decide_ticks_before(at, by);
        let state = self.edit();
        state.pause = None;
        state.stats.failures_in_row = 0;
        if let Some(registered) = &mut state.registered {
            registered.at = registered.at.max(at);
        }
    }

    /// Raises the mark to the newest tick before this instant, as skipped.
    fn decide_ticks_before(&mut self, instant: Timestamp, by: &str) {
        let schedule = self.registered.as_ref().and_then(|known| Schedule::from_text(&known.schedule));
        let newest = schedule.and_then(|schedule| schedule.newest_at(instant - Duration::from_micros(1)));
        let registered = self.registered.as_ref().map(|registered| registered.at);
        let decided = registered.max(self.mark.as_ref().map(|mark| mark.tick));
        if let Some(tick) = newest.filter(|tick| decided.is_some_and(|decided| *tick > decided)) {
            let mark = TickMark { tick, skip: Some(Skip::Paused), server: by.into(), at: self.now };
            self.edit().mark = Some(mark);
        }
    }

    /// Returns the end and the outcome of the newest run, whose lease was not released.
    pub(super) fn end_without_release(&self, newest: &Lease) -> (Timestamp, RunOutcome) {
        match self.committed {
            Some(at) => (at, RunOutcome::Committed),
            None => (newest.until, RunOutcome::Crashed),
        }
    }

    /// Appends the record of a run, and counts it. Manual locks have no run records.
    pub(super) fn record_run(&mut self, run: &Lease, ended: Timestamp, end: &Ending) {
        if run.kind == LeaseKind::Run {
            let record = self.count(run, ended, end);
            self.pause_after_failures(run, end);
            self.change.keep = end.remember;
            self.change.records.push(JobRecord::Run(record));
        }
    }

    /// Pauses a job that failed too often in a row.
    fn pause_after_failures(&mut self, run: &Lease, end: &Ending) {
        let (now, failures) = (self.now, self.stats.failures_in_row);
        let is_enough = (1..=failures).contains(&run.details.pause_after);
        if !is_enough || !end.outcome.is_failure() || self.active_pause(now).is_some() {
            return;
        }
        let last = end.error.as_deref().unwrap_or(end.outcome.as_str());
        let last: String = last.chars().take(SHOWN_OF_AN_ERROR).collect();
        let reason = format!("{failures} failures in a row, the last: {last}");
        let by = run.server.clone();
        self.edit().pause =
            Some(Pause { by, reason: Some(reason.into()), since: now, until: None, all: false });
    }

    /// Counts a run, and returns its record.
    pub(super) fn count(&mut self, run: &Lease, ended: Timestamp, end: &Ending) -> RunRecord {
        let outcome = end.outcome;
        let was_paused = self.pause.as_ref().is_some_and(|pause| !pause.is_active(self.now));
        let stats = &mut self.edit().stats;
        if was_paused {
            // It is over, and no claim has noticed it yet.
            stats.failures_in_row = 0;
        }
        // A damaged record may hold any number.
        stats.runs = stats.runs.saturating_add(u64::from(outcome != RunOutcome::NotStarted));
        stats.failures = stats.failures.saturating_add(u64::from(outcome.is_failure()));
        if outcome.is_failure() {
            stats.failures_in_row = stats.failures_in_row.saturating_add(1);
        }
        if matches!(outcome, RunOutcome::Succeeded | RunOutcome::Committed) {
            stats.failures_in_row = 0;
            let took = as_micros::of(ended.since(run.since));
            stats.successes = stats.successes.saturating_add(1);
            stats.total_micros = stats.total_micros.saturating_add(took);
            stats.longest_micros = stats.longest_micros.max(took);
            stats.last_success = Some(ended);
        }
        let stopped_by = self.broken_by.as_ref().or(self.cancelled_by.as_ref()).map(ToString::to_string);
        RunRecord { stopped_by, ..RunRecord::of(run, ended, end) }
    }
}
