//! Not public API. A server that loses one tick again and again, so that its claims can be measured.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::Timestamp;
use crate::job::Job;
use crate::job::parameters::States;
use crate::server::{Server, ServerConfig, server_id};
use crate::store::{REMEMBERED, Store};
use crate::tick::claim;
use crate::tick::{TickOutcome, report, run_tick};
use crate::util::clock::SystemClock;
use crate::util::spawner::Spawner;

/// A server without a scheduler, with one job and a tick of it that is decided.
pub struct LosingServer {
    server: Arc<Server>,
    job: Arc<Job>,
    tick: Timestamp,
}

impl LosingServer {
    /// Runs the tick, which decides it.
    pub async fn on(store: impl Store) -> Self {
        let job = Job::builder("losing").every("1h").run(|_| std::future::ready(()));
        let runtime = Spawner::Runtime(Handle::current());
        let server = Arc::new(Server::new(ServerConfig {
            id: server_id(None),
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            jobs: vec![job.build().expect("a schedule")],
            states: States::default(),
            host: runtime.clone(),
            app: runtime,
            max_concurrent: None,
            app_version: None,
            labels: std::collections::BTreeMap::new(),
            history_limit: REMEMBERED,
            shutdown_grace: Duration::ZERO,
        }));
        let now = server.requests(Duration::from_secs(5)).ping().await.expect("the store's time");
        // A server knows the ticks since its start.
        let tick = now + Duration::from_millis(20);
        tokio::time::sleep(Duration::from_millis(40)).await;
        let this = Self { job: server.jobs["losing"].clone(), server, tick };
        assert!(matches!(this.claim().await, TickOutcome::Ran(_)), "the first claim wins");
        this
    }

    /// Claims the tick as the scheduler does, and reports that it is taken.
    pub async fn lose(&self) {
        match self.claim().await {
            TickOutcome::Skipped(reason) => report::skipped(&self.server, &self.job, self.tick, reason),
            TickOutcome::Ran(_) | TickOutcome::NotDue => panic!("the tick was decided"),
        }
    }

    async fn claim(&self) -> TickOutcome {
        let claim = claim::due(&self.job, self.tick, None, Duration::from_secs(3600));
        run_tick(&self.server, &self.job, claim).await.outcome
    }
}
