use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Holder, LeaseKind};

/// A request for a manual run, by a server that does not have the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Identifies the request.
    pub id: String,
    /// Who asked.
    pub by: String,
    /// Instant at which it expires, by the store's clock.
    pub until: Timestamp,
    /// The answer, once there is one.
    pub answer: Option<RequestAnswer>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestAnswer {
    /// A server started the run.
    Started {
        /// The id of the server.
        server: String,
    },
    /// The key was held, so nothing was started.
    Held {
        /// The id of the holder; `None` if another program holds the lock.
        server: Option<String>,
    },
}

/// Whether a job was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forgotten {
    /// Nothing is left of it.
    Yes,
    /// No: the server with this id still has it.
    Scheduled(String),
    /// No: its key is held.
    Held(Holder),
    /// No: it is paused, and forgetting that would let it run. Resume it first.
    Paused,
    /// No: it was used at this instant, less than an hour ago, or the grace of its last tick is not over.
    TooRecent(Timestamp),
}

/// A lock, or a slot, that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its key.
    pub key: String,
    /// The kind of its lease; `None` if another program holds it.
    pub kind: Option<LeaseKind>,
    /// The fence of its lease; `None` if another program holds it.
    pub fence: Option<i64>,
    /// The holder.
    pub holder: Holder,
}

/// The heartbeat of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its id: `host-pid-random`.
    pub id: String,
    /// Instant at which its scheduler started, by the store's clock.
    pub started: Timestamp,
    /// Instant of the heartbeat, by the store's clock. There is one every 20 s.
    pub announced: Timestamp,
    /// The version of this crate that it runs.
    pub version: String,
    /// The version of its application.
    #[serde(default)]
    pub app_version: Option<String>,
    /// What its application says about it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The name of its program's [manifest](crate::fleet::Manifest).
    #[serde(default)]
    pub manifest: String,
    /// The jobs that it schedules.
    pub jobs: Vec<JobInfo>,
    /// Offset of its clock to the store's, in microseconds; positive if it is ahead.
    pub clock_ahead_micros: i64,
    /// Its runs in progress.
    pub running: Vec<RunningInfo>,
}

impl ServerInfo {
    /// Offset of its clock to the store's, in seconds; positive if it is ahead.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a clock that is off by centuries may be off by a microsecond more"
    )]
    pub fn clock_ahead_seconds(&self) -> f64 {
        self.clock_ahead_micros as f64 / 1e6
    }
}

/// A job as a server schedules it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its key.
    pub key: String,
    /// A hash of the job's schedule and policy.
    pub hash: String,
}

/// A run in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningInfo {
    /// The key of the job.
    pub key: String,
    /// The fence of its lease.
    pub fence: i64,
}
