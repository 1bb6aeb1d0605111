//! An operator: a client of the store without jobs, who pauses, resumes and breaks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobs::fleet::HeldLock;
use jobs::history;
use jobs::testing::check::{Fault, Observed};
use jobs::{Jobs, OperateError};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::clock;
use super::history::History;
use super::plan;

/// How long a foreign program keeps a lock.
pub const FOREIGN_FOR: Duration = Duration::from_millis(700);

/// A store that is whole answers long before.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Operator {
    jobs: Jobs,
    runtime: tokio::runtime::Handle,
    history: Arc<History>,
    calls: Mutex<Vec<JoinHandle<()>>>,
    breaks: Arc<Mutex<Vec<Break>>>,
}

/// A lock that was broken.
#[derive(Clone)]
pub struct Break {
    pub key: String,
    /// When it was requested.
    pub request: u64,
    /// When that was answered.
    pub answer: u64,
    /// The fences of the leases that it broke, if the answer arrived.
    pub broken: Option<Vec<i64>>,
}

impl Operator {
    pub fn connect(url: &str, history: Arc<History>, runtime: &Runtime) -> Self {
        let builder = jobs::builder().without_jobs().url(url).server_id("operator").allow_degraded_start();
        let jobs = runtime.block_on(builder.start_all()).expect("an operator's client");
        let (calls, breaks) = (Mutex::default(), Arc::default());
        Self { jobs, runtime: runtime.handle().clone(), history, calls, breaks }
    }

    fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) {
        let history = self.history.clone();
        history.note_about("operator", Observed::FaultBegan(Fault::Operator));
        let call = self.runtime.spawn(async move {
            call.await;
            history.note_about("operator", Observed::FaultEnded(Fault::Operator));
        });
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// Pauses a job, and resumes it later.
    pub fn pause(&self, key: String, lasts: Duration) {
        let jobs = self.jobs.clone();
        self.spawn(async move {
            let _may_fail = jobs.pause(&key).await;
            sleep(lasts).await;
            while jobs.resume(&key).await.is_err() {
                sleep(Duration::from_millis(200)).await;
            }
        });
    }

    pub fn break_lock(&self, key: String) {
        let (jobs, breaks) = (self.jobs.clone(), self.breaks.clone());
        self.spawn(async move {
            let request = clock::steady();
            // Without an answer it is not known whether the lock was broken.
            let held = jobs.break_lock(&key).await.ok();
            let broken = held.map(|held| held.iter().filter_map(|lock| lock.fence).collect());
            let broken = Break { key, request, answer: clock::steady(), broken };
            breaks.lock().unwrap_or_else(PoisonError::into_inner).push(broken);
        });
    }

    /// Another program has taken a lock, and notes it until the lock has expired.
    pub fn foreign_lock(&self) {
        let history = self.history.clone();
        self.spawn(async move {
            history.note_about("", Observed::FaultBegan(Fault::ForeignLock));
            sleep(FOREIGN_FOR).await;
            history.note_about("", Observed::FaultEnded(Fault::ForeignLock));
        });
    }

    /// Waits until all calls have ended, and resumes all jobs.
    pub fn finish(&self) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        self.runtime.block_on(async {
            for call in calls {
                timeout(PATIENCE, call).await.expect("the store answers the operator").expect("no panic");
            }
        });
    }

    pub fn breaks(&self) -> Vec<Break> {
        self.breaks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the store remembers of every job.
    pub fn histories(&self) -> Vec<(String, history::History)> {
        let history = |job: plan::PlannedJob| {
            let read = self.ask("the history of a job", async || self.jobs.history(&job.key).await);
            (job.key.clone(), read)
        };
        plan::jobs().into_iter().map(history).collect()
    }

    /// Waits until every job was claimed once.
    pub fn wait_until_registered(&self) {
        let give_up = Instant::now() + PATIENCE;
        while self.histories().iter().any(|(_, history)| history.registered.is_none()) {
            assert!(Instant::now() < give_up, "not all jobs were claimed in time");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn locks(&self) -> Vec<HeldLock> {
        self.ask("a list of locks", async || self.jobs.locks().await)
    }

    /// Asks until there is an answer: the first request may find that the connection was closed meanwhile.
    fn ask<T>(&self, what: &str, request: impl AsyncFn() -> Result<T, OperateError>) -> T {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.runtime.block_on(request()) {
                Ok(answer) => return answer,
                Err(error) => assert!(Instant::now() < give_up, "{what}: {error}"),
            }
        }
    }

    pub fn leave(self) {
        self.runtime.block_on(self.jobs.shutdown());
    }
}
