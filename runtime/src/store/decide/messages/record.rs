use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Ending, FailedTry, Gap, Lease, Pause, Progress, RegisteredSchedule, RunRequest};
use crate::store::record::key_state::is_default;

/// The outcome of a run.
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
    /// It was cancelled because its server could no longer prove its lease.
    LeaseLost,
    /// Its lease expired without a release. The next claim records that.
    Crashed,
    /// Its lease expired without a release, and its work is committed: its transaction was [finished](crate::Run::finish).
    Committed,
    /// It was claimed and released before it started.
    NotStarted,
    /// An operator broke its lock.
    Broken,
}

impl RunOutcome {
    /// Whether the tick is finished. An unfinished tick may be taken over.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::TimedOut | Self::Panicked | Self::Committed)
    }

    /// Whether it counts as a failure of the job.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Panicked | Self::Crashed)
    }

    /// Returns the outcome in lower case, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
            Self::LeaseLost => "lease_lost",
            Self::Crashed => "crashed",
            Self::Committed => "committed",
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

/// What caused a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trigger {
    /// Its tick.
    #[default]
    Schedule,
    /// A [manual run](crate::Jobs::run_now).
    Manual,
    /// Another server left its tick unfinished.
    Takeover,
    /// Its tick was missed, and the job [runs once](singleton_jobs_policy::Missed::RunOnce) for missed ticks.
    Missed,
}

impl Trigger {
    /// Returns the trigger in lower case, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Manual => "manual",
            Self::Takeover => "takeover",
            Self::Missed => "missed",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The record of a run that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The tick it ran for; `None` for a manual run.
    pub tick: Option<Timestamp>,
    /// The id of the server.
    pub server: String,
    /// The fence of its lease.
    pub fence: i64,
    /// The number of the attempt at the tick, from 1.
    pub attempt: u32,
    /// Instant of the claim, by the store's clock.
    pub started: Timestamp,
    /// Instant of the release, or of the expiry of its lease, by the store's clock.
    pub ended: Timestamp,
    /// The outcome.
    pub outcome: RunOutcome,
    /// The error's text, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The failed tries before the last one, oldest first; only the newest are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tries: Vec<FailedTry>,
    /// The last lines of its log, at most 4 KiB, if its server collects them (feature `log-tail`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The last progress that it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The id of the request for this manual run, if another server asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What caused it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trigger: Trigger,
    /// Who asked for this manual run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Who cancelled it or broke its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The version of the application that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
}

impl RunRecord {
    /// Creates the record of a lease that has ended.
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
            log: end.log.clone(),
            progress: lease.progress.clone(),
            request: lease.request.as_deref().map(str::to_owned),
            trigger: lease.trigger,
            by: lease.details.by.as_deref().map(str::to_owned),
            stopped_by: None,
            app_version: lease.details.app_version.as_deref().map(str::to_owned),
        }
    }

    /// Time from claim to release.
    pub fn duration(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// A run in progress, as far as the store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentRun {
    /// The tick it runs for; `None` for a manual run.
    pub tick: Option<Timestamp>,
    /// The id of the server.
    pub server: String,
    /// The fence of its lease.
    pub fence: i64,
    /// The number of the attempt at the tick, from 1.
    pub attempt: u32,
    /// Instant of the claim, by the store's clock.
    pub started: Timestamp,
    /// Instant at which its lease expires unless extended, by the store's clock.
    pub until: Timestamp,
    /// The progress that it had reported when its lease was last extended.
    pub progress: Option<Progress>,
    /// The id of the request for this manual run, if another server asked for it.
    pub request: Option<String>,
    /// What caused it.
    pub trigger: Trigger,
    /// Who asked for this manual run.
    pub by: Option<String>,
    /// The version of the application that runs it.
    pub app_version: Option<String>,
    /// Who asked for it to be cancelled.
    pub cancelled_by: Option<String>,
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
            trigger: lease.trigger,
            by: lease.details.by.as_deref().map(str::to_owned),
            app_version: lease.details.app_version.as_deref().map(str::to_owned),
            cancelled_by: None,
        }
    }
}

/// The record of a tick that was skipped for all servers, or of ticks that no server claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRecord {
    /// The tick; of missed ticks the first one.
    pub tick: Timestamp,
    /// The reason.
    pub reason: Skip,
    /// The server whose claim decided it.
    pub server: String,
    /// Instant of the decision, by the store's clock.
    pub at: Timestamp,
    /// The lease that was in the way, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<SkipHolder>,
    /// The pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The missed ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Gap>,
}

impl SkipRecord {
    /// Creates a record without details.
    pub fn new(tick: Timestamp, reason: Skip, server: impl Into<String>, at: Timestamp) -> Self {
        Self { tick, reason, server: server.into(), at, holder: None, pause: None, missed: None }
    }
}

/// The lease for which a tick was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipHolder {
    /// The id of its server; `None` if another program held the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Instant since which it was held, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The tick that it ran for; `None` for a manual run, or if another program held the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Timestamp>,
}

/// The reason for which a tick was skipped for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Skip {
    /// The previous run was in progress, or another program held the lock.
    Held,
    /// The job was paused.
    Paused,
    /// No server claimed them: none was running, the store was unreachable, or all were too late.
    Missed,
}

impl Skip {
    /// Returns the reason in lower case, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Paused => "paused",
            Self::Missed => "missed",
        }
    }
}

/// Counts over all runs of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Runs that were started.
    pub runs: u64,
    /// Runs that failed, panicked, timed out or crashed.
    pub failures: u64,
    /// Runs that succeeded.
    pub successes: u64,
    /// Total duration of the successful runs, in microseconds.
    pub total_micros: u64,
    /// Duration of the longest successful run, in microseconds.
    pub longest_micros: u64,
    /// Instant at which a run last succeeded, by the store's clock.
    pub last_success: Option<Timestamp>,
    /// Failures since the last success, or since the job was last resumed.
    #[serde(default)]
    pub failures_in_row: u32,
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

/// The history of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The run in progress.
    pub current: Option<CurrentRun>,
    /// The newest runs that ended, newest first.
    pub runs: Vec<RunRecord>,
    /// The newest skips, newest first.
    pub skips: Vec<SkipRecord>,
    /// Counts over all runs, not only those that are listed.
    pub stats: Stats,
    /// The pause, while ticks are skipped.
    pub pause: Option<Pause>,
    /// The schedule that servers follow; `None` if no tick was ever claimed.
    pub registered: Option<RegisteredSchedule>,
    /// The last request for a manual run.
    pub request: Option<RunRequest>,
}
