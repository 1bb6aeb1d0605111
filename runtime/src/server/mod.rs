//! A server: one running scheduler, and the state that all its ticks share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::Timestamp;
use crate::job::Job;
use crate::job::parameters::States;
use crate::lease::store_clock::StoreClock;
use crate::locks::{HeldKeys, WaitQueues};
use crate::observe::event::{Event, EventKind, EventSender};
use crate::observe::health::HealthCell;
use crate::observe::log;
#[cfg(feature = "metrics")]
use crate::observe::metrics::ServerMetrics;
use crate::store::{KeyMutexes, RequestObserver, RunDetails, Store, StoreClient, StoreError, StoreErrorKind};
use crate::tick::claim::turns;
use crate::util::clock::Clock;
use crate::util::random;
use crate::util::spawner::Spawner;
use crate::util::watched::Flag;
use application::Application;
use running::RunsInProgress;

pub(crate) mod application;
pub(crate) mod builder;
pub(crate) mod checked_jobs;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod heartbeat;
pub(crate) mod operate;
mod orders;
pub(crate) mod running;
pub(crate) mod store_choice;
pub(crate) mod thread;

/// Permission for one run, as `max_concurrent` limits them; `None` without a limit.
pub(crate) type RunPermit = Option<OwnedSemaphorePermit>;

/// One running scheduler: its configuration, its connections to the store and the application, and its state.
pub(crate) struct Server {
    pub(crate) id: Arc<str>,
    pub(crate) begun: Instant,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) time: StoreClock,
    pub(crate) jobs: BTreeMap<String, Arc<Job>>,
    pub(crate) states: Arc<States>,
    /// The runtime of the scheduler's own tasks.
    pub(crate) host: Spawner,
    /// The application's runtime, on which jobs run.
    pub(crate) app: Application,
    pub(crate) permits: Option<Arc<Semaphore>>,
    /// How many ticks that are due together are claimed at once, until the first answers arrive.
    pub(crate) claims_at_first: usize,
    pub(crate) health: HealthCell,
    pub(crate) running: RunsInProgress,
    /// One request of this server at a time for each semaphore.
    pub(crate) semaphore_mutexes: KeyMutexes,
    /// The callers on this server that wait for locks.
    pub(crate) wait_queues: WaitQueues,
    /// The manual locks that this server holds.
    pub(crate) held: HeldKeys,
    pub(crate) events: EventSender,
    /// The version of the application.
    pub(crate) app_version: Option<Arc<str>>,
    /// What the application says about this server.
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether the start found the store unreachable, and claims have to join the fleet first.
    pub(crate) must_join: AtomicBool,
    /// Whether this server has joined the fleet.
    pub(crate) has_joined: tokio::sync::Mutex<bool>,
    /// How many runs, and how many skips, the store keeps on record.
    pub(crate) history_limit: usize,
    /// How long a shutdown waits for runs before it cancels them.
    pub(crate) shutdown_grace: Duration,
    /// No further run of any kind is started.
    pub(crate) no_new_runs: Arc<Flag>,
    /// The server shuts down. Runs can see it.
    pub(crate) shutting_down: Arc<Flag>,
    /// Runs in progress are cancelled.
    pub(crate) cancel_runs: Flag,
    /// The scheduler itself has failed.
    pub(crate) failed: Flag,
    /// The tasks that a shutdown waits for: ticks from claim to release, lock requests, held locks, unanswered claims.
    pub(crate) tracked: TaskTracker,
    #[cfg(feature = "metrics")]
    pub(crate) metrics: ServerMetrics,
}

/// The checked configuration of a server.
pub(crate) struct ServerConfig {
    pub(crate) id: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) states: States,
    pub(crate) host: Spawner,
    pub(crate) app: Spawner,
    pub(crate) max_concurrent: Option<usize>,
    pub(crate) app_version: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) history_limit: usize,
    pub(crate) shutdown_grace: Duration,
}

impl Server {
    pub(crate) fn new(mut config: ServerConfig) -> Self {
        // In the order in which they fire, so that they are adjacent in memory: cache misses dominate with thousands of jobs.
        config.jobs.sort_by(|one, other| one.policy.key.cmp(&other.policy.key));
        // A job without a schedule, or without a run yet, has its metrics, too.
        #[cfg(feature = "metrics")]
        config.jobs.iter().for_each(|job| job.metrics().next_tick(None));
        let jobs = config.jobs.into_iter().map(|job| (job.policy.key.clone(), Arc::new(job)));
        Self {
            id: config.id.into(),
            begun: Instant::now(),
            health: HealthCell::default(),
            store: config.store,
            time: StoreClock::new(config.clock),
            jobs: jobs.collect(),
            states: Arc::new(config.states),
            host: config.host,
            app: Application::new(config.app),
            permits: config.max_concurrent.map(Semaphore::new).map(Arc::new),
            claims_at_first: turns::AT_FIRST,
            running: RunsInProgress::default(),
            semaphore_mutexes: KeyMutexes::default(),
            wait_queues: WaitQueues::default(),
            held: HeldKeys::default(),
            events: EventSender::new(),
            app_version: config.app_version.map(Into::into),
            labels: config.labels,
            must_join: AtomicBool::new(false),
            has_joined: tokio::sync::Mutex::new(false),
            history_limit: config.history_limit,
            shutdown_grace: config.shutdown_grace,
            no_new_runs: Arc::default(),
            shutting_down: Arc::default(),
            cancel_runs: Flag::default(),
            failed: Flag::default(),
            tracked: TaskTracker::new(),
            #[cfg(feature = "metrics")]
            metrics: ServerMetrics::new(),
        }
    }

    /// Spawns a task that a shutdown waits for.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.host.spawn(self.tracked.track_future(future)));
    }

    /// Logs an event, counts it, and sends it to the subscribers.
    pub(crate) fn emit(&self, job: Option<&Job>, kind: EventKind) {
        #[cfg(feature = "metrics")]
        if let Some(job) = job {
            job.metrics().event(job, &self.time, &kind);
        }
        self.emit_for_key(job.map(|job| job.policy.key.as_str()).unwrap_or_default(), kind);
    }

    /// The same, for a key that need not be a job's. It is not counted: such keys are no labels of metrics.
    pub(crate) fn emit_for_key(&self, key: &str, kind: EventKind) {
        log::event(self, key, &kind);
        self.events.send(|| Event { at: self.time.now(), key: key.to_owned(), kind });
    }

    /// Requests to the store, each with this time limit.
    pub(crate) fn requests(&self, within: Duration) -> StoreClient<'_> {
        StoreClient {
            store: &*self.store,
            time: &self.time,
            semaphore_mutexes: &self.semaphore_mutexes,
            observer: self,
            within,
        }
    }

    /// What the claim of a run of this job states about the run.
    pub(crate) fn details_of(&self, job: &Job) -> RunDetails {
        RunDetails {
            by: None,
            app_version: self.app_version.clone(),
            pause_after: job.policy.pause_after.unwrap_or(0),
        }
    }

    /// Joins the fleet, if the start could not.
    pub(crate) async fn join_if_needed(&self) -> Result<(), StoreError> {
        if self.must_join.load(Ordering::Relaxed) {
            // Boxed: hardly any claim needs it.
            return Box::pin(heartbeat::join(self)).await;
        }
        Ok(())
    }

    /// Begins the shutdown: no further run is started, and the runs in progress have the grace to finish.
    pub(crate) fn shut_down(&self) {
        self.no_new_runs.raise();
        self.shutting_down.raise();
    }

    /// Ends this server because of an error, and logs it.
    pub(crate) fn fail(&self, why: &str) {
        if !self.shutting_down.is_raised() && !self.failed.is_raised() {
            tracing::error!(target: "jobs", server = &*self.id, "the scheduler has failed and stops: {why}");
            self.failed.raise();
        }
    }

    /// A permit for a run, if one is free.
    pub(crate) fn free_permit(&self) -> Option<RunPermit> {
        match &self.permits {
            None => Some(None),
            Some(permits) => permits.clone().try_acquire_owned().ok().map(Some),
        }
    }

    /// A permit for a run, if one is free before this instant.
    pub(crate) async fn permit(&self, until: Option<Timestamp>) -> Option<RunPermit> {
        let Some(permits) = self.permits.clone() else { return Some(None) };
        let permit = match until {
            None => permits.acquire_owned().await,
            Some(until) => {
                tokio::time::timeout_at(self.time.instant_of(until), permits.acquire_owned()).await.ok()?
            }
        };
        permit.ok().map(Some)
    }
}

/// Derives the store's health from the results of requests, and measures their time.
impl RequestObserver for Server {
    fn answered(&self, step: &'static str) {
        if self.health.store_answered(step) {
            self.emit(None, EventKind::StoreBack);
        }
    }

    fn failed(&self, step: &'static str, error: &StoreError) {
        // One unreadable key is no failure of the store; its ticks report it.
        if error.kind() != StoreErrorKind::Unreadable && self.health.store_failed(step, error) {
            self.emit(None, EventKind::StoreUnavailable { error: error.to_string() });
        }
    }

    #[cfg(feature = "metrics")]
    fn took(&self, step: &'static str, time: Duration) {
        self.metrics.store_request(step, time);
    }
}

/// Fails the server when the task that holds it panics: the scheduler must not continue without one of its tasks.
pub(crate) struct FailOnPanic(pub(crate) Arc<Server>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("internal error: one of its tasks has panicked");
        }
    }
}

/// `host-pid-random`: this server's id on the store and in every server's log.
pub(crate) fn server_id(name: Option<&str>) -> String {
    let random = random::uuid().simple().to_string();
    let host = name.map_or_else(host_name, str::to_owned);
    format!("{host}-{}-{}", std::process::id(), &random[..6])
}

/// For people only: without a host name, the rest of the id still distinguishes servers.
fn host_name() -> String {
    let asked = std::env::var("HOSTNAME").ok();
    let asked = asked.or_else(|| std::env::var("COMPUTERNAME").ok());
    let asked = asked.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name: String = asked.unwrap_or_default().trim().chars().take(64).map(in_alphabet).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

fn in_alphabet(c: char) -> char {
    if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }
}
