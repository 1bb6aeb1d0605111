//! The handle to a running scheduler.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;

use crate::health::Health;
use crate::server::Server;
use crate::store::{History, Stamped, StoreError, StoreErrorKind};

/// A running scheduler. Keep it for as long as jobs should run, and [shut it down](Jobs::shutdown) at the end.
///
/// Dropping it stops scheduling and cancels the runs that go on, with a warning in the log.
#[must_use = "dropping this handle stops the jobs; keep it until the end of `main`"]
pub struct Jobs {
    server: Arc<Server>,
    runtime: runtime::Handle,
    closed: watch::Receiver<Option<Closed>>,
    shutdown_grace: Duration,
}

/// Why a scheduler has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// It was shut down.
    ShutDown,
    /// It could not go on, for the reason in the log, and cancelled its runs. Restart the process.
    Failed,
}

/// After the grace: how long cancelled runs may take to go.
const CANCELLED_WITHIN: Duration = Duration::from_secs(3);

/// How long a question to the store may take.
const ASK_WITHIN: Duration = Duration::from_secs(5);

impl Jobs {
    pub(crate) fn new(
        server: Arc<Server>,
        runtime: runtime::Handle,
        closed: watch::Receiver<Option<Closed>>,
        shutdown_grace: Duration,
    ) -> Self {
        Self { server, runtime, closed, shutdown_grace }
    }

    /// This server's id, as it is seen on the store and in every server's log: `host-pid-random`.
    pub fn server(&self) -> &str {
        &self.server.id
    }

    /// Whether jobs can start, for a readiness probe.
    pub fn health(&self) -> Health {
        if self.closed.borrow().is_some() || self.server.stop.is_cancelled() {
            return Health::Stopped;
        }
        self.server.health.get()
    }

    /// Waits until the scheduler has ended, and says why.
    pub async fn closed(&self) -> Closed {
        let mut closed = self.closed.clone();
        // The sender is dropped without a word only when the scheduler's thread has panicked.
        closed.wait_for(Option::is_some).await.ok().and_then(|closed| *closed).unwrap_or(Closed::Failed)
    }

    /// Stops scheduling, lets runs finish within the [grace](crate::Builder::shutdown_grace), cancels the
    /// rest, and releases every lease whose run is gone.
    ///
    /// A run that goes on without an `await` cannot be cancelled: it keeps its lease until it ends or the
    /// process does, so that no other server starts beside it. Then this returns all the same, about 3 s after
    /// the grace, and the log names it.
    pub async fn shutdown(self) {
        self.server.stop.cancel();
        let patience = self.shutdown_grace.saturating_add(CANCELLED_WITHIN);
        if tokio::time::timeout(patience, self.closed()).await.is_err() {
            let keys = self.server.running.keys().join(", ");
            tracing::warn!(
                target: "jobs", keys,
                "shut down, but these runs block and cannot be cancelled: {keys}; their leases are kept while they go \
                 on and expire when the process ends"
            );
        }
    }

    /// The newest runs and skips of a job, newest first: up to 100 of each.
    pub async fn history(&self, key: &str) -> Result<History, StoreError> {
        let key = key.to_owned();
        self.ask("history", move |server| async move {
            server.ask("history", ASK_WITHIN, server.store.history(&key)).await
        })
        .await
    }

    /// Makes a job run again whose mark lies in the future of the store's clock: the log says so when a tick
    /// is skipped for it. Ticks between now and that mark may then run a second time.
    pub async fn reset(&self, key: &str) -> Result<(), StoreError> {
        let key = key.to_owned();
        self.ask("reset", move |server| async move {
            server.ask("reset", ASK_WITHIN, server.store.reset(&key)).await
        })
        .await
    }

    /// Asks the store on the scheduler's thread, where its connection lives.
    async fn ask<T, F, Fut>(&self, step: &'static str, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Server>) -> Fut,
        Fut: Future<Output = Result<Stamped<T>, StoreError>> + Send + 'static,
    {
        match self.runtime.spawn(question(self.server.clone())).await {
            Ok(answer) => answer.map(|stamped| stamped.reply),
            Err(_) => {
                let location = self.server.store.location();
                Err(StoreError::new(StoreErrorKind::Unreachable, step, location, "the scheduler has ended"))
            }
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if self.server.stop.is_cancelled() || self.closed.borrow().is_some() {
            return;
        }
        tracing::warn!(
            target: "jobs", server = self.server.id,
            "the handle to the jobs was dropped without `shutdown`: no further tick is claimed, runs are cancelled"
        );
        self.server.stop.cancel();
        self.server.cancel_runs.cancel();
    }
}
