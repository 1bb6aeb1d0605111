//! The ticks of a job: whether each one ran, and why if it did not.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::tz::TimeZone;
use singleton_jobs_policy::{Schedule, jiff};

use super::overview::{overdue, usual_grace};
use super::reason::Reason;
use super::sentence::Sentence;
use crate::Timestamp;
use crate::fleet::{Holder, Manifest, ServerInfo};
use crate::history::{History, RunOutcome, RunRecord, Skip, SkipRecord};
use crate::store::{JobRecords, KeyState, Look, TickMark, decide};

/// The ticks of a job, as the store knows them: [`Jobs::ticks`](crate::Jobs::ticks).
#[derive(Clone, Debug)]
pub struct Ticks {
    pub(super) now: Timestamp,
    pub(super) zone: TimeZone,
    pub(super) schedule: Option<Schedule>,
    pub(super) history: History,
    pub(super) state: std::sync::Arc<KeyState>,
    /// Another program that holds the lock.
    pub(super) foreign_holder: Option<Holder>,
    /// The newest tick that is overdue.
    pub(super) overdue: Option<Timestamp>,
    /// How long after its tick a run may start.
    pub(super) grace: Duration,
    /// The servers that have the job.
    pub(super) servers: Vec<String>,
    /// The number of all servers.
    pub(super) alive: usize,
}

/// One tick of a job: what became of it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickReport {
    /// The tick.
    pub tick: Timestamp,
    /// What became of it.
    pub fate: TickFate,
    /// The reason, as the rest of a sentence about the tick: `was skipped because the run of 02:00 still held the key on web-3`.
    pub reason: String,
    /// The reason with its instants, for readers of other zones.
    pub(crate) sentence: Reason,
    /// The records of its runs, oldest first: one for each attempt that has ended.
    pub runs: Vec<RunRecord>,
    /// The record of its skip, if it was skipped or missed.
    pub skip: Option<SkipRecord>,
}

/// What became of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TickFate {
    /// It lies in the future.
    Upcoming,
    /// It is due, and a server may still start or skip it.
    Due,
    /// It should have started, and no server has claimed it.
    Overdue,
    /// It runs.
    Running,
    /// It ran, and this is the outcome of its last attempt.
    Ran(RunOutcome),
    /// It was skipped for all servers.
    Skipped,
    /// No server claimed it in time.
    Missed,
    /// Nothing is on record about it: it is too old, or the job was not known then.
    NotOnRecord,
    /// The schedule has no such tick.
    NotScheduled,
}

impl TickFate {
    /// Returns the fate in lower case; the outcome of a tick that ran.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upcoming => "upcoming",
            Self::Due => "due",
            Self::Overdue => "overdue",
            Self::Running => "running",
            Self::Ran(outcome) => outcome.as_str(),
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::NotOnRecord => "not_on_record",
            Self::NotScheduled => "not_scheduled",
        }
    }
}

impl Ticks {
    /// From a look at the job, and the records that were read after it.
    pub(crate) fn new(
        key: &str,
        look: &Look,
        records: JobRecords,
        servers: &[ServerInfo],
        manifests: impl IntoIterator<Item = Manifest>,
    ) -> Self {
        let history = decide::history(look, records);
        let is_foreign = decide::held(look, key).into_iter().find(|lock| lock.kind.is_none());
        let registered = history.registered.as_ref().map(|registered| registered.schedule.to_string());
        let announced = || manifests.into_iter().find_map(|manifest| manifest.job(key)?.schedule.clone());
        let schedule = registered.or_else(announced).as_deref().and_then(Schedule::from_text);
        let has_job = |server: &&ServerInfo| server.jobs.iter().any(|job| job.key == key);
        Self {
            now: look.now,
            zone: TimeZone::UTC,
            overdue: schedule.as_ref().and_then(|schedule| overdue(look, schedule)),
            grace: usual_grace(&look.state),
            schedule,
            history,
            state: look.state.clone(),
            foreign_holder: is_foreign.map(|lock| lock.holder),
            servers: servers.iter().filter(has_job).map(|server| server.id.clone()).collect(),
            alive: servers.len(),
        }
    }

    /// The same ticks with reasons that name times in this zone. UTC by default.
    #[must_use]
    pub fn in_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// The newest ticks up to now, newest first.
    pub fn newest(&self, count: usize) -> Vec<TickReport> {
        let recorded = self.history.runs.iter().filter_map(|run| run.tick);
        let recorded = recorded.chain(self.history.skips.iter().map(|skip| skip.tick));
        let mut ticks: BTreeSet<_> = recorded.collect();
        let before = |tick: Timestamp| self.schedule.as_ref()?.newest_at(tick - Duration::from_micros(1));
        let newest = self.schedule.as_ref().and_then(|schedule| schedule.newest_at(self.now));
        let scheduled = std::iter::successors(newest, |tick| before(*tick)).take(count);
        ticks.extend(scheduled.filter(|tick| !self.is_before_the_job(*tick)));
        ticks.into_iter().rev().take(count).map(|tick| self.at(tick)).collect()
    }

    /// The tick of this instant.
    pub fn at(&self, tick: Timestamp) -> TickReport {
        let mut runs: Vec<_> =
            self.history.runs.iter().filter(|run| run.tick == Some(tick)).cloned().collect();
        runs.sort_by_key(|run| (run.attempt, run.started));
        let skip = self.history.skips.iter().find(|skip| concerns(skip, tick)).cloned();
        let fate = self.fate(tick, &runs, skip.as_ref());
        let sentence = Sentence::new(self, tick, &runs, skip.as_ref()).of(fate);
        let reason = sentence.in_zone(&self.zone, tick);
        TickReport { tick, fate, reason, sentence, runs, skip }
    }

    /// The next tick.
    pub fn next(&self) -> Option<TickReport> {
        let next = self.schedule.as_ref()?.next_after(self.now)?;
        Some(self.at(next))
    }

    /// The schedule that the servers follow; `None` if the job has none, or was never announced.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// The history that the ticks are explained by, as [`Jobs::history`](crate::Jobs::history) returns it.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    fn fate(&self, tick: Timestamp, runs: &[RunRecord], skip: Option<&SkipRecord>) -> TickFate {
        if self.history.current.as_ref().is_some_and(|run| run.tick == Some(tick)) {
            return TickFate::Running;
        }
        if let Some(last) = runs.last() {
            return TickFate::Ran(last.outcome);
        }
        match skip.map(|skip| skip.reason) {
            Some(Skip::Held | Skip::Paused) => return TickFate::Skipped,
            Some(Skip::Missed) => return TickFate::Missed,
            None => {}
        }
        if !self.is_scheduled(tick) {
            return TickFate::NotScheduled;
        }
        if tick > self.now {
            return TickFate::Upcoming;
        }
        if self.state.missed.iter().any(|gap| gap.after < tick && tick < gap.before) {
            return TickFate::Missed;
        }
        if self.mark().is_some_and(|mark| tick <= mark.tick) || self.is_before_the_job(tick) {
            return TickFate::NotOnRecord;
        }
        let is_late = self.overdue.is_some_and(|overdue| tick <= overdue);
        if is_late && self.history.pause.is_none() { TickFate::Overdue } else { TickFate::Due }
    }

    pub(super) fn mark(&self) -> Option<&TickMark> {
        self.state.mark.as_ref()
    }

    /// The oldest tick that is on record.
    pub(super) fn oldest_record(&self) -> Option<Timestamp> {
        let runs = self.history.runs.iter().filter_map(|run| run.tick);
        runs.chain(self.history.skips.iter().map(|skip| skip.tick)).min()
    }

    fn is_scheduled(&self, tick: Timestamp) -> bool {
        self.schedule.as_ref().is_some_and(|schedule| schedule.newest_at(tick) == Some(tick))
    }

    /// Whether the tick lies before the job was registered, or last resumed.
    pub(super) fn is_before_the_job(&self, tick: Timestamp) -> bool {
        let registered = self.history.registered.as_ref().map(|registered| registered.at);
        // No tick was ever claimed: the job is new.
        registered.map_or(tick + self.grace < self.now, |registered| tick <= registered)
    }
}

/// Whether a skip is that of this tick. Missed ticks share one record.
fn concerns(skip: &SkipRecord, tick: Timestamp) -> bool {
    skip.tick == tick || skip.missed.as_ref().is_some_and(|gap| gap.after < tick && tick < gap.before)
}
