//! The handle to a running scheduler.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Server;
use super::heartbeat::LEAVE_WITHIN;
use super::thread::CANCELLED_WITHIN;
use crate::locks::WeakServer;
use crate::observe::event::Events;
use crate::observe::health::Health;

/// The handle to a running scheduler. Keep it for as long as jobs should run, and [shut it down](Jobs::shutdown) at the
/// end. Clones are cheap and refer to the same scheduler: give one to the handlers of a web server.
///
/// Dropping the last clone without a shutdown stops scheduling and cancels the runs in progress, with a warning in the log.
#[derive(Clone)]
#[must_use = "dropping this handle stops the jobs; keep it until the end of `main`"]
pub struct Jobs {
    handle: Arc<Handle>,
    /// Who acts, if it is not this server.
    actor: Option<Arc<str>>,
}

struct Handle {
    server: Arc<Server>,
    /// The scheduler's own, where its connection to the store lives.
    runtime: runtime::Handle,
    closed: watch::Receiver<Option<Closed>>,
    /// When a shutdown stops waiting: the same instant for all its callers.
    give_up: OnceLock<Instant>,
}

/// Why a scheduler has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// It was shut down.
    ShutDown,
    /// It failed, for the reason in the log, and cancelled its runs. Restart the process.
    Failed,
}

/// An instant so far away can still be computed.
pub(super) const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Jobs {
    pub(crate) fn new(
        server: Arc<Server>,
        runtime: runtime::Handle,
        closed: watch::Receiver<Option<Closed>>,
    ) -> Self {
        Self { handle: Arc::new(Handle { server, runtime, closed, give_up: OnceLock::new() }), actor: None }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.handle.server
    }

    pub(super) fn runtime(&self) -> &runtime::Handle {
        &self.handle.runtime
    }

    /// The same handle for another actor.
    pub(super) fn acting_as(&self, actor: Arc<str>) -> Self {
        Self { handle: self.handle.clone(), actor: Some(actor) }
    }

    /// Who acts, for the records of operators' actions.
    pub(crate) fn actor(&self) -> Arc<str> {
        self.actor.clone().unwrap_or_else(|| self.server().id.clone())
    }

    pub(crate) fn weak_server(&self) -> WeakServer {
        WeakServer::of(self.server())
    }

    /// This server's id, on the store and in every server's log: `host-pid-random`.
    pub fn server_id(&self) -> &str {
        &self.server().id
    }

    /// The scheduler's state. See [`Health`] for what a readiness probe and a liveness probe use.
    pub fn health(&self) -> Health {
        // The sender is dropped without a value when the scheduler's thread has panicked.
        if self.handle.closed.borrow().is_some() || self.handle.closed.has_changed().is_err() {
            return Health::Stopped;
        }
        if self.server().no_new_runs.is_raised() {
            return Health::Stopping;
        }
        if let Some(blocked_for) = self.server().app.blocked_for() {
            return Health::ApplicationBlocked { blocked_for };
        }
        self.server().health.get()
    }

    /// Everything that happens on this server from now on.
    pub fn events(&self) -> Events {
        self.server().events.subscribe(self.server().time.now())
    }

    /// Waits until the scheduler has ended, and returns why.
    pub async fn closed(&self) -> Closed {
        let mut closed = self.handle.closed.clone();
        // The sender is dropped without a value only when the scheduler's thread has panicked.
        closed.wait_for(Option::is_some).await.ok().and_then(|closed| *closed).unwrap_or(Closed::Failed)
    }

    /// Starts no further run on this server: no tick, no takeover, no manual run, whether it is requested here or elsewhere.
    /// From now on [`health`](Jobs::health) is [`Health::Stopping`].
    ///
    /// Runs in progress continue under their leases and are not notified. Locks and operator calls work as before. This is
    /// the first step when a server terminates: it can then drain its connections, which may take a while, without winning
    /// a tick that it has no time for. Calling it again has no effect. It cannot be undone:
    /// [shut the scheduler down](Jobs::shutdown) afterwards.
    ///
    /// ```
    /// # async fn drain_connections() {}
    /// # async fn terminate(jobs: jobs::Jobs) {
    /// jobs.stop_claiming();
    /// drain_connections().await;
    /// jobs.shutdown().await;
    /// # }
    /// ```
    pub fn stop_claiming(&self) {
        self.server().no_new_runs.raise();
    }

    /// Stops scheduling, lets runs finish within the [grace](crate::Builder::shutdown_grace), cancels the rest, and
    /// releases every lease whose run has ended.
    ///
    /// A run that blocks, without an `await`, cannot be cancelled: it keeps its lease until it ends or the process does, so
    /// that no other server starts beside it. This method then returns about 3 s after the grace, and the log names the run.
    ///
    /// Manual locks are kept alive for the grace, too. Then code under a [`run`](crate::locks::Lock::run) is dropped and
    /// its lock released; the holder of a [`Guard`](crate::locks::Guard) is notified, and its lock expires by itself.
    ///
    /// It may be called more than once, also at the same time from several clones: every call returns when the scheduler
    /// has ended.
    pub async fn shutdown(&self) {
        self.server().shut_down();
        let patience = self.server().shutdown_grace.saturating_add(CANCELLED_WITHIN + LEAVE_WITHIN);
        let give_up = *self.handle.give_up.get_or_init(|| Instant::now() + patience.min(A_YEAR));
        // The scheduler's thread logs what it still waits for then.
        let _is_blocked = tokio::time::timeout_at(give_up, self.closed()).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.server.shutting_down.is_raised() || self.closed.borrow().is_some() {
            return;
        }
        if self.server.jobs.is_empty() && self.server.held.keys().is_empty() {
            return self.server.shut_down();
        }
        tracing::warn!(
            target: "jobs", server = &*self.server.id,
            "the handle to the jobs was dropped without `shutdown`: no further tick is claimed, runs are cancelled, and \
             locks are lost"
        );
        // In this order: a run that has not begun is not even started.
        self.server.no_new_runs.raise();
        self.server.cancel_runs.raise();
        self.server.shut_down();
    }
}
