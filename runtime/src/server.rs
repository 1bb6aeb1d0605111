//! One running instance of the scheduler: what all its ticks share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::Timestamp;
use crate::clock::Clock;
use crate::extract::States;
use crate::health::HealthCell;
use crate::running::Running;
use crate::store::{Stamped, Store, StoreError, StoreErrorKind, StoreFuture};
use crate::store_time::StoreTime;

/// A place among the runs of a server; `None` where there is no limit.
pub(crate) type Slot<'a> = Option<SemaphorePermit<'a>>;

pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) begun: Instant,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) time: StoreTime,
    pub(crate) states: Arc<States>,
    /// Where jobs run: the application's runtime, not the scheduler's.
    pub(crate) app: tokio::runtime::Handle,
    pub(crate) slots: Option<Semaphore>,
    pub(crate) health: HealthCell,
    pub(crate) running: Running,
    /// How many runs, and how many skips, the store keeps on record.
    pub(crate) remember: usize,
    /// No further tick is claimed.
    pub(crate) stop: CancellationToken,
    /// Runs that still go on are cancelled.
    pub(crate) cancel_runs: CancellationToken,
    /// The scheduler itself has failed.
    pub(crate) failed: CancellationToken,
    /// Every tick from its claim to its release.
    pub(crate) ticks: TaskTracker,
}

impl Server {
    pub(crate) fn new(
        id: String,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        states: States,
        app: tokio::runtime::Handle,
        max_concurrent: Option<usize>,
    ) -> Self {
        Self {
            id,
            begun: Instant::now(),
            health: HealthCell::new(store.location()),
            store,
            time: StoreTime::new(clock),
            states: Arc::new(states),
            app,
            slots: max_concurrent.map(Semaphore::new),
            running: Running::default(),
            remember: crate::store::REMEMBERED,
            stop: CancellationToken::new(),
            cancel_runs: CancellationToken::new(),
            failed: CancellationToken::new(),
            ticks: TaskTracker::new(),
        }
    }

    /// A step on the store within this time. Learns the store's clock and health from how it goes.
    pub(crate) async fn ask<T>(
        &self,
        step: &'static str,
        within: Duration,
        request: StoreFuture<'_, T>,
    ) -> Result<Stamped<T>, StoreError> {
        let sent = Instant::now();
        let result = tokio::time::timeout(within, request).await.unwrap_or_else(|_| {
            let cause = format!("no answer within {within:?}");
            Err(StoreError::new(StoreErrorKind::TimedOut, step, self.store.location(), cause))
        });
        match &result {
            Ok(stamped) => {
                self.time.learn(sent, stamped.at);
                self.health.store_answered(step);
            }
            Err(error) => self.health.store_failed(step, error),
        }
        result
    }

    /// Ends this server, loudly.
    pub(crate) fn fail(&self, why: &str) {
        if !self.stop.is_cancelled() && !self.failed.is_cancelled() {
            tracing::error!(target: "jobs", server = self.id, "the scheduler cannot go on, and stops: {why}");
            self.failed.cancel();
        }
    }

    /// A place among the runs of this server, if one comes free in time.
    pub(crate) async fn slot(&self, until: Timestamp) -> Option<Slot<'_>> {
        let Some(slots) = &self.slots else { return Some(None) };
        let permit = tokio::time::timeout_at(self.time.instant_of(until), slots.acquire()).await.ok()?;
        permit.ok().map(Some)
    }
}

/// Held by every task of the scheduler: if one of them panics, the scheduler ends loudly instead of going on
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
