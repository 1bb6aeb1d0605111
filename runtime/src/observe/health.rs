//! Whether the scheduler can do its work.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Timestamp;
use crate::store::{StoreError, StoreErrorKind};

/// Whether the scheduler can do its work, for a readiness probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The store answered when it was last asked.
    Ready,
    /// The store does not answer, or refuses, or did not decide a job's last tick while it could still start. It is tried
    /// again at every tick.
    StoreUnavailable {
        /// Since when, by this machine's clock.
        since: Timestamp,
        /// What kind of trouble it is.
        kind: StoreErrorKind,
        /// The last error.
        error: String,
    },
    /// The application's runtime polls no tasks, so nothing is claimed here.
    ApplicationBlocked {
        /// For how long.
        blocked_for: Duration,
    },
    /// The scheduler has ended, by shutdown or by a failure. [`Jobs::closed`](crate::Jobs::closed) says which.
    Stopped,
}

impl Health {
    /// Whether jobs can start.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

#[derive(Default)]
pub(crate) struct HealthCell {
    store: Mutex<Option<Trouble>>,
    /// By key: jobs whose last tick the store did not decide while it could still start.
    jobs: Mutex<BTreeMap<String, Trouble>>,
}

#[derive(Clone)]
struct Trouble {
    since: Timestamp,
    kind: StoreErrorKind,
    error: String,
    /// The store answered, and refused this step: others may well succeed meanwhile, and prove nothing.
    refused: Option<&'static str>,
}

impl HealthCell {
    /// Whether that ends a trouble. A full store still extends and releases; only a claim shows that jobs can
    /// start again.
    pub(crate) fn store_answered(&self, step: &'static str) -> bool {
        let over =
            |trouble: &mut Trouble| trouble.refused.is_none_or(|refused| refused == step || step == "claim");
        self.trouble().take_if(over).is_some()
    }

    /// Whether that begins a trouble; what each tick suffers from it is told by the tick.
    pub(crate) fn store_failed(&self, step: &'static str, error: &StoreError) -> bool {
        let answered = !matches!(
            error.kind(),
            StoreErrorKind::Unreachable | StoreErrorKind::TimedOut | StoreErrorKind::Untrusted
        );
        let mut trouble = self.trouble();
        let since = trouble.as_ref().map_or_else(Timestamp::now, |trouble| trouble.since);
        let new = Trouble {
            since,
            kind: error.kind(),
            error: error.to_string(),
            refused: answered.then_some(step),
        };
        trouble.replace(new).is_none()
    }

    /// A tick of this job was skipped because of an error that lasted.
    pub(crate) fn job_failed(&self, key: &str, error: &StoreError) {
        let mut jobs = self.jobs();
        let since = jobs.get(key).map_or_else(Timestamp::now, |trouble| trouble.since);
        let trouble = Trouble { since, kind: error.kind(), error: error.to_string(), refused: None };
        jobs.insert(key.to_owned(), trouble);
    }

    /// The store has decided a tick of this job.
    pub(crate) fn job_answered(&self, key: &str) {
        let mut jobs = self.jobs();
        if !jobs.is_empty() {
            jobs.remove(key);
        }
    }

    pub(crate) fn get(&self) -> Health {
        let lasting = || self.jobs().values().min_by_key(|trouble| trouble.since).cloned();
        match self.trouble().clone().or_else(lasting) {
            None => Health::Ready,
            Some(Trouble { since, kind, error, .. }) => Health::StoreUnavailable { since, kind, error },
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Trouble>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
