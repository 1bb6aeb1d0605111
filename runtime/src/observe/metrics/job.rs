//! The metrics of a job on a server, fed by its events.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};

use super::tick_result::TickResult;
use super::{label, name, unix_seconds};
use crate::Timestamp;
use crate::events::Taken;
use crate::history::Skip;
use crate::job::Job;
use crate::lease::store_clock::StoreClock;
use crate::observe::event::{EventKind, RunRef, SkipReason};

/// The handles of a job's metrics.
pub(crate) struct JobMetrics {
    job_name: SharedString,
    ticks: [OnceLock<Counter>; TickResult::COUNT],
    /// By outcome: the results of ticks that ran.
    durations: [OnceLock<Histogram>; TickResult::LeaseLost as usize + 1],
    start_delay: Histogram,
    running: Gauge,
    last_success: OnceLock<Gauge>,
    next_tick: Gauge,
    overdue: Gauge,
    paused: Gauge,
    lease_lost: Counter,
}

impl JobMetrics {
    /// Creates the handles of the job with this key.
    pub(crate) fn new(key: &str) -> Self {
        let job_name = SharedString::from(key.to_owned());
        let gauge = |name| gauge!(name, label::JOB_NAME => job_name.clone());
        let metrics = Self {
            ticks: Default::default(),
            durations: Default::default(),
            start_delay: histogram!(name::START_DELAY, label::JOB_NAME => job_name.clone()),
            running: gauge(name::RUNNING),
            last_success: OnceLock::new(),
            next_tick: gauge(name::NEXT_TICK),
            overdue: gauge(name::OVERDUE),
            paused: gauge(name::PAUSED),
            lease_lost: counter!(name::LEASE_LOST, label::JOB_NAME => job_name.clone()),
            job_name,
        };
        TickResult::ALL.iter().filter(|result| result.is_counted_from_the_start()).for_each(|result| {
            metrics.count(*result, 0);
        });
        metrics
    }

    /// Records an event of the job.
    pub(crate) fn event(&self, job: &Job, time: &StoreClock, kind: &EventKind) {
        match kind {
            EventKind::Skipped { reason, .. } => self.skipped(reason),
            EventKind::Started(run) => self.started(job, time.now(), run),
            EventKind::TakenOver(_) => self.overdue.set(0.0),
            EventKind::Succeeded { run, took } => {
                let last_success = || gauge!(name::LAST_SUCCESS, label::JOB_NAME => self.job_name.clone());
                self.last_success.get_or_init(last_success).set(unix_seconds(time.now()));
                self.ended(TickResult::Succeeded, run, *took);
            }
            EventKind::Failed { run, took, .. } => self.ended(TickResult::Failed, run, *took),
            EventKind::Panicked { run, took, .. } => self.ended(TickResult::Panicked, run, *took),
            EventKind::TimedOut { run, took } => self.ended(TickResult::TimedOut, run, *took),
            EventKind::Cancelled { run, took } => self.ended(TickResult::Cancelled, run, *took),
            EventKind::LeaseLost { run, took } => {
                self.lease_lost.increment(1);
                self.ended(TickResult::LeaseLost, run, *took);
            }
            EventKind::Missed { count, .. } => self.count(TickResult::Missed, *count as u64),
            EventKind::Overdue { .. } => self.overdue.set(1.0),
            _ => {}
        }
    }

    /// Counts a run that begins.
    pub(crate) fn run_begins(&self) {
        self.running.increment(1.0);
    }

    /// Counts a run that has ended.
    pub(crate) fn run_ends(&self) {
        self.running.decrement(1.0);
    }

    /// Sets the next tick.
    pub(crate) fn next_tick(&self, tick: Option<Timestamp>) {
        self.next_tick.set(tick.map_or(0.0, unix_seconds));
    }

    fn started(&self, job: &Job, now: Timestamp, run: &RunRef) {
        self.overdue.set(0.0);
        if let Some(tick) = run.tick {
            self.paused.set(0.0);
            self.start_delay.record(now.since(tick + job.policy.delay_of(tick)));
        }
    }

    /// The claim of a paused job is decided before its lateness and before its holder: a tick that was found late or held was
    /// not paused.
    fn skipped(&self, reason: &SkipReason) {
        self.count(TickResult::from(reason), 1);
        match reason {
            SkipReason::Taken(Taken::Started { .. }) => {
                self.paused.set(0.0);
                self.overdue.set(0.0);
            }
            SkipReason::Taken(Taken::Skipped(record)) if record.reason == Skip::Paused => self.is_paused(),
            SkipReason::Paused(_) => self.is_paused(),
            SkipReason::Taken(_) | SkipReason::Held(_) | SkipReason::Late(_) => self.paused.set(0.0),
            _ => {}
        }
    }

    fn is_paused(&self) {
        self.paused.set(1.0);
        self.overdue.set(0.0);
    }

    /// A manual run has no tick.
    fn ended(&self, result: TickResult, run: &RunRef, took: Duration) {
        if run.tick.is_some() {
            self.count(result, 1);
        }
        let duration = || {
            let (key, outcome) = (self.job_name.clone(), result.as_str());
            histogram!(name::RUN_DURATION, label::JOB_NAME => key, label::OUTCOME => outcome)
        };
        self.durations[result as usize].get_or_init(duration).record(took);
    }

    fn count(&self, result: TickResult, ticks: u64) {
        let counter = || counter!(name::TICKS, label::JOB_NAME => self.job_name.clone(), label::RESULT => result.as_str());
        self.ticks[result as usize].get_or_init(counter).increment(ticks);
    }
}
