//! The runs in progress on this server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::Server;
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

/// A run that counts as in progress until this is dropped.
pub(crate) struct CountedRun {
    server: Arc<Server>,
    number: u64,
    #[cfg(feature = "metrics")]
    job: Arc<Job>,
}

impl CountedRun {
    pub(crate) fn new(server: &Arc<Server>, job: &Arc<Job>, fence: i64, check: Arc<Notify>) -> Self {
        let mut runs = server.running.runs();
        let number = runs.next;
        runs.next += 1;
        runs.jobs.insert(number, RunInProgress { job: job.clone(), fence, check });
        #[cfg(feature = "metrics")]
        job.metrics().run_begins();
        Self {
            server: server.clone(),
            number,
            #[cfg(feature = "metrics")]
            job: job.clone(),
        }
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        self.server.running.runs().jobs.remove(&self.number);
        #[cfg(feature = "metrics")]
        self.job.metrics().run_ends();
    }
}
