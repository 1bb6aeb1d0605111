use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::TestClock;
use super::network::{Conditions, Link};
use super::process::SimulatedProcess;
use crate::job::Job;
use crate::job::parameters::States;
use crate::server::handle::Jobs;
use crate::server::thread;
use crate::server::{Server, ServerConfig};
use crate::store::REMEMBERED;
use crate::util::random::seeded::is_simulated;
use crate::util::spawner::Spawner;

/// One server of a [`Fleet`](super::Fleet): a [`Jobs`] handle, and what can happen to its process.
pub struct TestServer {
    jobs: Jobs,
    process: Arc<SimulatedProcess>,
    application: Arc<SimulatedProcess>,
    link: Link,
    clock: TestClock,
}

pub(super) struct TestServerConfig {
    pub(super) id: String,
    pub(super) link: Link,
    pub(super) clock: TestClock,
    pub(super) jobs: Vec<Job>,
    pub(super) states: States,
    pub(super) max_concurrent: Option<usize>,
    pub(super) shutdown_grace: Duration,
}

impl TestServer {
    /// Starts as the host does, but on the test's runtime.
    pub(super) async fn start(part: TestServerConfig) -> Self {
        let TestServerConfig { id, link, clock, jobs, states, max_concurrent, shutdown_grace } = part;
        let (process, application) =
            (SimulatedProcess::on_current_runtime(), SimulatedProcess::on_current_runtime());
        let host = Spawner::Simulated(process.clone());
        let app = Spawner::Simulated(application.clone());
        let server = Server::new(ServerConfig {
            id,
            store: Arc::new(link.clone()),
            clock: Arc::new(clock.clone()),
            jobs,
            states,
            host: host.clone(),
            app,
            max_concurrent,
            app_version: None,
            labels: std::collections::BTreeMap::new(),
            history_limit: REMEMBERED,
            shutdown_grace,
        });
        // The few jobs of a simulation wait for each other, too.
        let claims_at_first = if is_simulated() { 1 } else { server.claims_at_first };
        let server = Arc::new(Server { claims_at_first, ..server });
        let killed = (process.clone(), application.clone());
        link.0.on_kill(move || {
            killed.0.kill();
            killed.1.kill();
        });
        // An unreachable store does not prevent the start, as with `allow_degraded_start`.
        let _answer = server.requests(Duration::from_secs(3)).ping().await;
        let (closing, closed) = watch::channel(None);
        let serving = server.clone();
        drop(host.spawn(async move {
            let reason = thread::serve(&serving).await;
            closing.send_replace(Some(reason));
        }));
        let jobs = Jobs::new(server, Handle::current(), closed);
        Self { jobs, process, application, link, clock }
    }

    /// Kills the server like a process by SIGKILL: its runs end at their current `await`, and their leases are not released.
    /// Tasks that a job has spawned itself continue.
    pub fn crash(&self) {
        self.link.0.kill();
    }

    /// Ends its process after a shutdown.
    pub(super) fn end(&self) {
        self.process.kill();
        self.application.kill();
    }

    /// Adds a function that is called when it crashes.
    pub(super) fn on_kill(&self, kill: impl FnOnce() + Send + 'static) {
        self.link.0.on_kill(kill);
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The ttls of its jobs.
    pub(super) fn ttls(&self) -> Vec<Duration> {
        self.jobs.server().jobs.values().map(|job| job.policy.ttl).collect()
    }

    /// Whether it has crashed.
    pub fn has_crashed(&self) -> bool {
        self.process.is_killed()
    }

    /// Stops the server like a process by SIGSTOP: its tasks are not polled, and time passes.
    pub fn freeze(&self) {
        self.process.stop();
        self.application.stop();
    }

    /// Continues a frozen server.
    pub fn thaw(&self) {
        self.application.resume();
        self.process.resume();
    }

    /// Blocks or unblocks the application's runtime. While it is blocked no job of the server is polled, but its scheduler
    /// continues.
    pub fn block_application(&self, blocked: bool) {
        if blocked { self.application.stop() } else { self.application.resume() }
    }

    /// Cuts its connection to the store, or restores it.
    pub fn cut_off(&self, cut: bool) {
        self.change_network(|conditions| conditions.cut = cut);
    }

    /// Loses the replies to its writes, which the store still applies. Looks are answered: without an answer to them a server
    /// writes nothing.
    pub fn lose_replies(&self, lost: bool) {
        self.change_network(|conditions| conditions.replies_lost = lost);
    }

    /// Sets the latency of each of its requests; zero by default.
    pub fn set_latency(&self, latency: Duration) {
        self.change_network(|conditions| conditions.latency = latency);
    }

    pub(super) fn change_network(&self, change: impl FnOnce(&mut Conditions)) {
        self.link.0.change(change);
    }

    /// Spawns a task of the application.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.application.spawn(task));
    }

    /// This server's own clock, which can be set. Ticks follow the store's.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Shuts the server down as a deploy does.
    pub async fn shutdown(self) {
        self.jobs.shutdown().await;
    }
}

impl Deref for TestServer {
    type Target = Jobs;

    fn deref(&self) -> &Jobs {
        &self.jobs
    }
}
