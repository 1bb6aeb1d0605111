//! The runs that go on on this server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::job::Job;

/// Which jobs run here at the moment, by fence.
#[derive(Default)]
pub(crate) struct Running(Mutex<HashMap<i64, Arc<Job>>>);

impl Running {
    /// Counts a run until the returned value is dropped.
    pub(crate) fn enter(&self, fence: i64, job: &Arc<Job>) -> Entered<'_> {
        self.runs().insert(fence, job.clone());
        Entered { running: self, fence }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.runs().values().map(|job| job.policy.key.clone()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<i64, Arc<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Entered<'a> {
    running: &'a Running,
    fence: i64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.running.runs().remove(&self.fence);
    }
}
