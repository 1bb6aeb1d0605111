use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::Pause;

/// What servers and operators share beyond single jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetState {
    /// The pause of all jobs: a job that is registered meanwhile starts paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The newest actions of operators, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

/// An action of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Instant of the action, by the store's clock.
    pub at: Timestamp,
    /// Who acted.
    pub by: Arc<str>,
    /// What was done.
    pub what: ActionKind,
    /// The key of the job or lock; `None` for all jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// The reason that was given, or a detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
}

/// What an operator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionKind {
    /// Paused a job, or all.
    Pause,
    /// Resumed a job, or all.
    Resume,
    /// Requested a manual run.
    Run,
    /// Cancelled a run.
    Cancel,
    /// Broke a lock.
    Unlock,
    /// Lowered a mark that was in the future.
    Reset,
    /// Removed the record of a job.
    Forget,
}

impl ActionKind {
    /// Returns the action as one lower-case word, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Run => "run",
            Self::Cancel => "cancel",
            Self::Unlock => "unlock",
            Self::Reset => "reset",
            Self::Forget => "forget",
        }
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
