use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Holder, LeaseKind};

/// A request to run a job by hand, by a server that does not have its function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Tells it from other requests.
    pub id: String,
    /// The server that asked.
    pub by: String,
    /// When it expires, by the store's clock.
    pub until: Timestamp,
    /// What became of it.
    pub answer: Option<RequestAnswer>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestAnswer {
    /// A server started the run.
    Started {
        /// Which one.
        server: String,
    },
    /// The key was held, so nothing was started.
    Held {
        /// By this server; unknown if another program holds the lock.
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
    /// No: somebody holds its key.
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
    /// What it is held for; `None` if another program holds it.
    pub kind: Option<LeaseKind>,
    /// The fence of its lease; `None` if another program holds it.
    pub fence: Option<i64>,
    /// Who holds it, since when, and for how long unless it is extended.
    pub holder: Holder,
}

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
