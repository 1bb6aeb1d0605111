//! Whether the scheduler can do its work.

use std::sync::{Mutex, PoisonError};

use crate::Timestamp;
use crate::store::StoreError;

/// Whether the scheduler can do its work, for a readiness probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The store answered when it was last asked.
    Ready,
    /// The store does not answer, so nothing can start; it is tried again at every tick.
    StoreUnavailable {
        /// Since when, by this machine's clock.
        since: Timestamp,
        /// The last error.
        error: String,
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

pub(crate) struct HealthCell {
    location: String,
    trouble: Mutex<Option<(Timestamp, String)>>,
}

impl HealthCell {
    pub(crate) fn new(location: String) -> Self {
        Self { location, trouble: Mutex::new(None) }
    }

    pub(crate) fn store_answered(&self) {
        if let Some((since, _)) = self.trouble().take() {
            tracing::info!(target: "jobs", store = %self.location, unavailable_since = %since, "the store is back");
        }
    }

    /// One warning when the trouble begins; what each tick suffers from it is logged by the tick.
    pub(crate) fn store_failed(&self, error: &StoreError) {
        let mut trouble = self.trouble();
        let since = trouble.as_ref().map_or_else(Timestamp::now, |(since, _)| *since);
        if trouble.replace((since, error.to_string())).is_none() {
            drop(trouble);
            tracing::warn!(target: "jobs", store = %self.location, %error, "the store is unavailable; trying on");
        }
    }

    pub(crate) fn get(&self) -> Health {
        match self.trouble().clone() {
            None => Health::Ready,
            Some((since, error)) => Health::StoreUnavailable { since, error },
        }
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<(Timestamp, String)>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
