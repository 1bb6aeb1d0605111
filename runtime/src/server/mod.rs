//! One running instance of the scheduler: what all its ticks share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::Timestamp;
use crate::job::Job;
use crate::job::parameters::States;
use crate::lease::store_clock::StoreTime;
use crate::locks::{HeldHere, Lines};
use crate::observe::event::{Event, EventKind, EventSender};
use crate::observe::health::HealthCell;
use crate::observe::log;
use crate::store::{KeyMutexes, RequestObserver, Store, StoreClient, StoreError, StoreErrorKind};
use crate::util::clock::Clock;
use crate::util::tasks::Place;
use crate::util::watched::Flag;
use application::Application;
use running::Running;

pub(crate) mod application;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod heartbeat;
pub(crate) mod manual_run;
pub(crate) mod roster;
pub(crate) mod running;
pub(crate) mod signal;
pub(crate) mod thread;

/// A place among the runs of a server; `None` where there is no limit.
pub(crate) type Slot = Option<OwnedSemaphorePermit>;

pub(crate) struct Server {
    pub(crate) id: Arc<str>,
    pub(crate) begun: Instant,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) time: StoreTime,
    pub(crate) jobs: BTreeMap<String, Arc<Job>>,
    pub(crate) states: Arc<States>,
    /// Where the scheduler's own tasks run.
    pub(crate) host: Place,
    /// Where jobs run: the application's runtime, not the scheduler's.
    pub(crate) app: Application,
    pub(crate) slots: Option<Arc<Semaphore>>,
    pub(crate) health: HealthCell,
    pub(crate) running: Running,
    /// The turns of this server's requests for one semaphore.
    pub(crate) turns: KeyMutexes,
    /// Who waits here for locks.
    pub(crate) lines: Lines,
    /// The locks by hand that are held here.
    pub(crate) held: HeldHere,
    pub(crate) events: EventSender,
    /// How many runs, and how many skips, the store keeps on record.
    pub(crate) remember: usize,
    /// No further tick is claimed. Runs can see it.
    pub(crate) stop: Arc<Flag>,
    /// Runs that still go on are cancelled.
    pub(crate) cancel_runs: Flag,
    /// The scheduler itself has failed.
    pub(crate) failed: Flag,
    /// Every tick from its claim to its release.
    pub(crate) ticks: TaskTracker,
}

/// What a server is made of.
pub(crate) struct Setup {
    pub(crate) id: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) states: States,
    pub(crate) host: Place,
    pub(crate) app: Place,
    pub(crate) max_concurrent: Option<usize>,
    pub(crate) remember: usize,
}

impl Server {
    pub(crate) fn new(mut setup: Setup) -> Self {
        // Jobs that fire one after the other lie beside each other: memory is what firing thousands waits for.
        setup.jobs.sort_by(|one, other| one.policy.key.cmp(&other.policy.key));
        let jobs = setup.jobs.into_iter().map(|job| (job.policy.key.clone(), Arc::new(job)));
        Self {
            id: setup.id.into(),
            begun: Instant::now(),
            health: HealthCell::default(),
            store: setup.store,
            time: StoreTime::new(setup.clock),
            jobs: jobs.collect(),
            states: Arc::new(setup.states),
            host: setup.host,
            app: Application::new(setup.app),
            slots: setup.max_concurrent.map(Semaphore::new).map(Arc::new),
            running: Running::default(),
            turns: KeyMutexes::default(),
            lines: Lines::default(),
            held: HeldHere::default(),
            events: EventSender::new(),
            remember: setup.remember,
            stop: Arc::default(),
            cancel_runs: Flag::default(),
            failed: Flag::default(),
            ticks: TaskTracker::new(),
        }
    }

    /// A task that a shutdown waits for.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.host.spawn(self.ticks.track_future(future)));
    }

    /// Something happened: it is logged, and whoever listens is told.
    pub(crate) fn tell(&self, job: Option<&Job>, kind: EventKind) {
        self.tell_of(job.map(|job| job.policy.key.as_str()).unwrap_or_default(), kind);
    }

    /// The same, of a key that need not be a job's.
    pub(crate) fn tell_of(&self, key: &str, kind: EventKind) {
        log::event(self, key, &kind);
        self.events.send(|| Event { at: self.time.now(), key: key.to_owned(), kind });
    }

    /// Requests to the store that it answers within this time.
    pub(crate) fn requests(&self, within: Duration) -> StoreClient<'_> {
        StoreClient { store: &*self.store, time: &self.time, turns: &self.turns, observer: self, within }
    }

    /// Ends this server, loudly.
    pub(crate) fn fail(&self, why: &str) {
        if !self.stop.is_raised() && !self.failed.is_raised() {
            tracing::error!(target: "jobs", server = &*self.id, "the scheduler cannot go on, and stops: {why}");
            self.failed.raise();
        }
    }

    /// A place among the runs of this server, if one is free.
    pub(crate) fn free_slot(&self) -> Option<Slot> {
        match &self.slots {
            None => Some(None),
            Some(slots) => slots.clone().try_acquire_owned().ok().map(Some),
        }
    }

    /// A place among the runs of this server, if one comes free in time.
    pub(crate) async fn slot(&self, until: Option<Timestamp>) -> Option<Slot> {
        let Some(slots) = self.slots.clone() else { return Some(None) };
        let permit = match until {
            None => slots.acquire_owned().await,
            Some(until) => {
                tokio::time::timeout_at(self.time.instant_of(until), slots.acquire_owned()).await.ok()?
            }
        };
        permit.ok().map(Some)
    }
}

/// Learns the store's health from how requests fare.
impl RequestObserver for Server {
    fn answered(&self, step: &'static str) {
        if self.health.store_answered(step) {
            self.tell(None, EventKind::StoreBack);
        }
    }

    fn failed(&self, step: &'static str, error: &StoreError) {
        // One key that cannot be read says nothing about the store; its ticks tell of it.
        if error.kind() != StoreErrorKind::Unreadable && self.health.store_failed(step, error) {
            self.tell(None, EventKind::StoreUnavailable { error: error.to_string() });
        }
    }
}

/// Held by the tasks that do the scheduler's work: if one of them panics, the scheduler ends loudly instead of going on
/// without it.
pub(crate) struct NeverSilently(pub(crate) Arc<Server>);

impl Drop for NeverSilently {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a defect of its own");
        }
    }
}

/// `host-pid-random`: who this is, on the store and in every server's log.
pub(crate) fn server_id(name: Option<&str>) -> String {
    let random = Uuid::new_v4().simple().to_string();
    let host = name.map_or_else(host_name, str::to_owned);
    format!("{host}-{}-{}", std::process::id(), &random[..6])
}

/// Only for people to read: where no name can be found, the rest of the id tells servers apart.
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
