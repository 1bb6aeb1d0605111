//! The runs in progress on this server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::fleet::RunningInfo;
use crate::job::Job;
use crate::util::lock;

/// The runs in progress, by number.
#[derive(Default)]
pub(crate) struct RunsInProgress(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    /// Two jobs may have the same fence, so runs are numbered.
    next: u64,
    jobs: BTreeMap<u64, RunInProgress>,
}

struct RunInProgress {
    job: Arc<Job>,
    fence: i64,
    /// Raised to ask the store about the lease before the next extension is due.
    check: Arc<Notify>,
}

impl RunsInProgress {
    /// Counts a run until the returned value is dropped.
    pub(crate) fn enter(&self, job: &Arc<Job>, fence: i64, check: Arc<Notify>) -> CountedRun<'_> {
        let mut runs = self.runs();
        let number = runs.next;
        runs.next += 1;
        runs.jobs.insert(number, RunInProgress { job: job.clone(), fence, check });
        #[cfg(feature = "metrics")]
        job.metrics().run_begins();
        CountedRun {
            running: self,
            number,
            #[cfg(feature = "metrics")]
            job: job.clone(),
        }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.infos().into_iter().map(|run| run.key).collect()
    }

    pub(crate) fn infos(&self) -> Vec<RunningInfo> {
        let info = |run: &RunInProgress| RunningInfo { key: run.job.policy.key.clone(), fence: run.fence };
        self.runs().jobs.values().map(info).collect()
    }

    /// Asks the store about the lease of this job's run now.
    pub(crate) fn check_lease(&self, key: &str) {
        self.runs()
            .jobs
            .values()
            .filter(|run| run.job.policy.key == key)
            .for_each(|run| run.check.notify_one());
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        lock(&self.0)
    }
}

/// A run, until it is dropped.
pub(crate) struct CountedRun<'a> {
    running: &'a RunsInProgress,
    number: u64,
    #[cfg(feature = "metrics")]
    job: Arc<Job>,
}

impl Drop for CountedRun<'_> {
    fn drop(&mut self) {
        self.running.runs().jobs.remove(&self.number);
        #[cfg(feature = "metrics")]
        self.job.metrics().run_ends();
    }
}
