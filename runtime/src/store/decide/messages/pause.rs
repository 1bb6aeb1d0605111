use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use crate::store::record::key_state::is_default;

/// A pause: servers skip the job's ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who paused the job: an operator, or the id of the server whose run was the last of too many failures.
    pub by: Arc<str>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// Instant since which it is paused, by the store's clock.
    pub since: Timestamp,
    /// Instant at which it resumes by itself; `None` if an operator has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether all jobs were paused together: they are resumed together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
}

impl Pause {
    /// Whether it counts at this instant.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// An operator's order to pause a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseOrder {
    /// Who gives it.
    pub by: Arc<str>,
    /// Why.
    pub reason: Option<Arc<str>>,
    /// Time after which the job resumes by itself.
    pub lasts: Option<Duration>,
    /// Whether all jobs are paused: a job that is paused already stays as it is.
    pub all: bool,
}
