use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::TestClock;
use super::network::{Link, NetworkedStore};
use super::server::{TestServer, TestServerConfig};
use crate::Timestamp;
use crate::history::History;
use crate::job::Job;
use crate::job::parameters::States;
use crate::job::registry;
use crate::server::checked_jobs::{JobSelection, Variables};
use crate::server::error::StartError;
use crate::store::memory::MemoryStore;
use crate::store::{Store, decide};
use crate::util::clock::Clock;
use crate::util::random::seeded::SeededRandom;

/// Noon of 15 January 2027, UTC.
pub(super) const NOON: Timestamp = Timestamp::from_micros(1_800_014_400_000_000);

/// Servers that share a store in memory, in one process. See the [module](super).
pub struct Fleet {
    plan: FleetBuilder,
    clock: TestClock,
    pub(super) store: MemoryStore,
    pub(super) servers: Vec<TestServer>,
    started: usize,
    pub(super) chaos_seed: Option<u64>,
}

/// Called for each server that starts.
type InsertState = Box<dyn Fn(&mut States) + Send + Sync>;
type ObserveStore = Box<dyn Fn(&str, &MemoryStore) -> Arc<dyn Store> + Send + Sync>;
type MakeJob = Box<dyn Fn() -> Option<Job> + Send + Sync>;

/// Configures a fleet; [`start`](FleetBuilder::start) starts it.
#[must_use = "nothing is started before `start`"]
pub struct FleetBuilder {
    servers: usize,
    begins_at: Timestamp,
    clocks_off: BTreeMap<usize, i64>,
    states: Vec<InsertState>,
    jobs: Vec<MakeJob>,
    annotated: bool,
    only: Vec<String>,
    max_concurrent: Option<usize>,
    shutdown_grace: Duration,
    /// Decides the fate of single messages, once there are faults.
    pub(super) seed: u64,
    /// The store as a server sees it, if something observes its requests.
    pub(super) observe_store: Option<ObserveStore>,
}

impl Fleet {
    /// Configures a fleet of this number of servers.
    pub fn of(servers: usize) -> FleetBuilder {
        FleetBuilder {
            servers,
            begins_at: NOON,
            clocks_off: BTreeMap::new(),
            states: Vec::new(),
            jobs: Vec::new(),
            annotated: false,
            only: Vec::new(),
            max_concurrent: None,
            shutdown_grace: Duration::from_secs(25),
            seed: 0,
            observe_store: None,
        }
    }

    /// Lets time pass.
    pub async fn run_for(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The store's clock, which can be set.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Returns the server of this number, from 0 in the order of their starts.
    #[track_caller]
    pub fn server(&self, number: usize) -> &TestServer {
        &self.servers[number]
    }

    /// Returns all servers.
    pub fn servers(&self) -> &[TestServer] {
        &self.servers
    }

    /// Returns the server on which a run of this job is in progress.
    pub async fn running(&self, key: &str) -> Option<&TestServer> {
        let current = self.history(key).await.current?;
        self.servers.iter().find(|server| server.server_id() == current.server)
    }

    /// Returns the history of a job.
    pub async fn history(&self, key: &str) -> History {
        let records = self.store.records(&[key.to_owned()], usize::MAX).await;
        match (self.store.look(key).await, records.map(|mut found| found.pop())) {
            (Ok(look), Ok(Some(records))) => decide::history(&look, records),
            // The memory store always answers.
            _ => History::default(),
        }
    }

    /// Cuts the connections of all servers to the store, or restores them.
    pub fn cut_off_the_store(&self, cut: bool) {
        self.servers.iter().for_each(|server| server.cut_off(cut));
    }

    /// Removes the record of a job, as a restart of the store without persistence does.
    pub fn wipe(&self, key: &str) {
        self.store.wipe(key);
    }

    /// Starts another server, as a deploy or a restart after a crash does, and returns its number.
    pub async fn add_server(&mut self) -> Result<usize, StartError> {
        let server = self.new_server().await?;
        self.servers.push(server);
        Ok(self.servers.len() - 1)
    }

    /// The shortest ttl of its jobs.
    pub(super) fn shortest_ttl(&self) -> Duration {
        let ttls = self.servers.iter().flat_map(TestServer::ttls);
        ttls.min().unwrap_or(Duration::from_secs(10))
    }

    /// Makes the clock of the next server wrong by so many milliseconds.
    pub(super) fn set_next_clock(&mut self, millis: i64) {
        self.plan.clocks_off.insert(self.started, millis);
    }

    /// Starts a server that is not one of the fleet yet.
    pub(super) async fn new_server(&mut self) -> Result<TestServer, StartError> {
        let number = self.started;
        self.started += 1;
        self.plan.server(number, &self.clock, &self.store).await
    }

    /// Shuts a server down as a deploy does, and takes it out of the fleet: later ones move up by one number.
    pub async fn shut_down(&mut self, number: usize) {
        self.servers.remove(number).shutdown().await;
    }
}

impl FleetBuilder {
    /// Adds a job; the function is called for each server.
    pub fn job(mut self, job: impl Fn() -> Job + Send + Sync + 'static) -> Self {
        self.jobs.push(Box::new(move || Some(job())));
        self
    }

    /// Adds a job that some servers do not have.
    pub(super) fn job_if(mut self, job: impl Fn() -> Option<Job> + Send + Sync + 'static) -> Self {
        self.jobs.push(Box::new(job));
        self
    }

    /// Adds all annotated jobs of the program, or of the test binary.
    pub fn annotated_jobs(mut self) -> Self {
        self.annotated = true;
        self
    }

    /// Adds one annotated job.
    pub fn annotated_job(mut self, key: impl Into<String>) -> Self {
        self.only.push(key.into());
        self
    }

    /// Adds a value that jobs take as [`State<T>`](crate::State), cloned for each server.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.push(Box::new(move |states| states.insert(value.clone())));
        self
    }

    /// Sets the store's clock at the start. Noon of 15 January 2027, UTC, by default.
    pub fn begins_at(mut self, time: Timestamp) -> Self {
        self.begins_at = time;
        self
    }

    /// Makes a server's clock wrong by so many milliseconds: ahead of the store's, or behind it if negative.
    pub fn clock_off_by(mut self, server: usize, millis: i64) -> Self {
        self.clocks_off.insert(server, millis);
        self
    }

    /// Sets the number of jobs that may run on each server at the same time.
    pub fn max_concurrent(mut self, runs: usize) -> Self {
        self.max_concurrent = Some(runs);
        self
    }

    /// Sets the time for which a shutdown waits for runs before it cancels them.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Checks the jobs as [`start_all`](crate::start_all) does, and starts the servers.
    ///
    /// # Panics
    ///
    /// If Tokio's clock is not paused: hours would take hours.
    pub async fn start(self) -> Result<Fleet, StartError> {
        assert!(
            is_clock_paused(),
            "a fleet needs Tokio's paused clock; write #[tokio::test(start_paused = true)]"
        );
        let clock = TestClock::starting_at(self.begins_at);
        self.start_on(clock).await
    }

    /// The same, with this clock of the store.
    pub(super) async fn start_on(self, clock: TestClock) -> Result<Fleet, StartError> {
        let store = MemoryStore::new(Arc::new(clock.clone()));
        let (count, servers) = (self.servers, Vec::new());
        let mut fleet = Fleet { plan: self, clock, store, servers, started: 0, chaos_seed: None };
        for _ in 0..count {
            fleet.add_server().await?;
        }
        Ok(fleet)
    }

    async fn server(
        &self,
        number: usize,
        clock: &TestClock,
        store: &MemoryStore,
    ) -> Result<TestServer, StartError> {
        let id = format!("server-{number}");
        let seen: Arc<dyn Store> = match &self.observe_store {
            Some(observe) => observe(&id, store),
            None => Arc::new(store.clone()),
        };
        let random = SeededRandom::new(self.seed, &id);
        let mut states = States::default();
        self.states.iter().for_each(|insert| insert(&mut states));
        let mut built: Vec<_> = self.jobs.iter().filter_map(|job| job()).collect();
        for key in &self.only {
            built.push(annotated(key)?);
        }
        let selection = JobSelection { annotated: self.annotated, built, ..JobSelection::default() };
        let jobs = selection.check(&states, &Variables::default())?.jobs;
        Ok(TestServer::start(TestServerConfig {
            id,
            link: Link(Arc::new(NetworkedStore::new(seen, random))),
            clock: clock.off_by(self.clocks_off.get(&number).copied().unwrap_or(0)),
            jobs,
            states,
            max_concurrent: self.max_concurrent,
            shutdown_grace: self.shutdown_grace,
        })
        .await)
    }
}

fn annotated(key: &str) -> Result<Job, StartError> {
    let found = registry::registered().into_iter().flatten().find(|job| job.policy.key == key);
    found.ok_or_else(|| StartError::Config {
        source: "the fleet's `annotated_job`".to_owned(),
        message: format!("there is no annotated job \"{key}\""),
    })
}

/// Whether Tokio's clock stands still while time passes.
fn is_clock_paused() -> bool {
    let before = tokio::time::Instant::now();
    std::thread::sleep(Duration::from_micros(10));
    tokio::time::Instant::now() == before
}
