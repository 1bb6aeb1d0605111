//! The runs that go on on this server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::job::Job;

/// Which jobs run here at the moment.
#[derive(Default)]
pub(crate) struct Running(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    /// Two jobs may have the same fence, so runs are numbered.
    next: u64,
    jobs: HashMap<u64, Arc<Job>>,
}

impl Running {
    /// Counts a run until the returned value is dropped.
    pub(crate) fn enter(&self, job: &Arc<Job>) -> Entered<'_> {
        let mut runs = self.runs();
        let number = runs.next;
        runs.next += 1;
        runs.jobs.insert(number, job.clone());
        Entered { running: self, number }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.runs().jobs.values().map(|job| job.policy.key.clone()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Entered<'a> {
    running: &'a Running,
    number: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.running.runs().jobs.remove(&self.number);
    }
}
