use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Ending, FailedTry, Lease, Progress, RegisteredSchedule, RunRequest};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunOutcome {
    /// It returned without an error.
    Succeeded,
    /// It returned an error.
    Failed,
    /// It took longer than its timeout.
    TimedOut,
    /// It panicked.
    Panicked,
    /// It was cancelled by a shutdown.
    Cancelled,
    /// Its lease could not be proved any longer, so it was cancelled.
    LeaseLost,
    /// Its server never said how it ended; found by the next claim.
    Crashed,
    /// It was claimed and given back before it started.
    NotStarted,
    /// An operator broke its lock.
    Broken,
}

impl RunOutcome {
    /// Whether the tick is done with. An unfinished tick may be taken over.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::TimedOut | Self::Panicked)
    }

    /// Whether it counts as a failure of the job.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Panicked | Self::Crashed)
    }

    /// The outcome in one lower-case word, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
            Self::LeaseLost => "lease_lost",
            Self::Crashed => "crashed",
            Self::NotStarted => "not_started",
            Self::Broken => "broken",
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One run of a job, as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The tick it ran for; `None` for a run by hand.
    pub tick: Option<Timestamp>,
    /// Where it ran.
    pub server: String,
    /// The fence of its lease.
    pub fence: i64,
    /// Which attempt at the tick it was.
    pub attempt: u32,
    /// When it was claimed, by the store's clock.
    pub started: Timestamp,
    /// When it was released, or found crashed, by the store's clock.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The error's text, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The tries before the last one, oldest first; only the newest are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tries: Vec<FailedTry>,
    /// How far it said it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The id of the request that it answered, for a manual run that another server asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl RunRecord {
    /// Of a lease that has ended.
    pub(crate) fn of(lease: &Lease, ended: Timestamp, end: &Ending) -> Self {
        Self {
            tick: lease.tick,
            server: lease.server.to_string(),
            fence: lease.fence,
            attempt: lease.attempt,
            started: lease.since,
            ended,
            outcome: end.outcome,
            error: end.error.clone(),
            failed_tries: end.failed_tries.clone(),
            progress: lease.progress.clone(),
            request: lease.request.as_deref().map(str::to_owned),
        }
    }

    /// How long it took, from claim to release.
    pub fn duration(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// A run that goes on, as far as the store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentRun {
    /// The tick it runs for; `None` for a run by hand.
    pub tick: Option<Timestamp>,
    /// Where it runs.
    pub server: String,
    /// The fence of its lease.
    pub fence: i64,
    /// Which attempt at the tick it is.
    pub attempt: u32,
    /// When it was claimed, by the store's clock.
    pub started: Timestamp,
    /// When its lease ends unless extended, by the store's clock.
    pub until: Timestamp,
    /// How far it said it was, when its lease was last extended.
    pub progress: Option<Progress>,
    /// The id of the request that it answers, for a manual run that another server asked for.
    pub request: Option<String>,
}

impl CurrentRun {
    pub(crate) fn of(lease: Lease) -> Self {
        Self {
            tick: lease.tick,
            server: lease.server.to_string(),
            fence: lease.fence,
            attempt: lease.attempt,
            started: lease.since,
            until: lease.until,
            progress: lease.progress,
            request: lease.request.as_deref().map(str::to_owned),
        }
    }
}

/// One tick that was skipped for all servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRecord {
    /// The tick.
    pub tick: Timestamp,
    /// Why.
    pub reason: Skip,
    /// The server whose claim decided it.
    pub server: String,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// Why a tick was skipped for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Skip {
    /// The last run, or another program's lock, was still there.
    Held,
    /// The job was paused.
    Paused,
}

/// What the store counted of a job's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Runs that were started.
    pub runs: u64,
    /// Runs that failed, panicked, timed out or crashed.
    pub failures: u64,
    /// Runs that succeeded.
    pub successes: u64,
    /// How long the successful runs took together, in microseconds.
    pub total_micros: u64,
    /// How long the longest successful run took, in microseconds.
    pub longest_micros: u64,
    /// When a run last succeeded, by the store's clock.
    pub last_success: Option<Timestamp>,
}

impl Stats {
    /// The mean duration of the successful runs.
    pub fn mean(&self) -> Option<Duration> {
        self.total_micros.checked_div(self.successes).map(Duration::from_micros)
    }

    /// The duration of the longest successful run.
    pub fn longest(&self) -> Option<Duration> {
        (self.successes > 0).then(|| Duration::from_micros(self.longest_micros))
    }
}

/// What a store remembers of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The run that goes on.
    pub current: Option<CurrentRun>,
    /// The newest runs that ended, newest first.
    pub runs: Vec<RunRecord>,
    /// The newest skips, newest first.
    pub skips: Vec<SkipRecord>,
    /// Counts over all runs, not only those that are listed.
    pub stats: Stats,
    /// Whether ticks are skipped until the job is resumed.
    pub paused: bool,
    /// The schedule that servers follow; `None` if no tick was ever claimed.
    pub registered: Option<RegisteredSchedule>,
    /// The last request to run the job by hand.
    pub request: Option<RunRequest>,
}
