use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

/// A server as it announced itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its id: `host-pid-random`.
    pub id: String,
    /// When its scheduler started, by the store's clock.
    pub started: Timestamp,
    /// When it said this, by the store's clock. It says so every 20 s.
    pub announced: Timestamp,
    /// The version of this crate that it runs.
    pub version: String,
    /// The jobs that it schedules.
    pub jobs: Vec<JobInfo>,
    /// How far its clock is ahead of the store's, in microseconds.
    pub clock_ahead_micros: i64,
    /// The runs that go on there.
    pub running: Vec<RunningInfo>,
}

/// A job as a server schedules it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its key.
    pub key: String,
    /// Differs between servers whose schedule or policy of the job differ.
    pub hash: String,
}

/// A run that goes on on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningInfo {
    /// Of which job.
    pub key: String,
    /// The fence of its lease.
    pub fence: i64,
}
