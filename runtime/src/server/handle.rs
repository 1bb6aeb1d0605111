//! The handle to a running scheduler.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};

use super::Server;
use super::manual_run;
use super::manual_run::RunNow;
use crate::diagnosis::Finding;
use crate::fleet::{Forgotten, ServerInfo};
use crate::history::{CurrentRun, History};
use crate::locks::WeakServer;
use crate::observe::diagnosis;
use crate::observe::event::Events;
use crate::observe::health::Health;
use crate::store::{StoreError, StoreErrorKind};

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

/// How often a caller looks whether a cancelled run has ended.
const CANCEL_POLL: Duration = Duration::from_millis(250);

/// How long a question to the store may take.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// A job must have been unused for so long before it can be forgotten.
const QUIET: Duration = Duration::from_secs(3600);

impl Jobs {
    pub(crate) fn new(
        server: Arc<Server>,
        runtime: runtime::Handle,
        closed: watch::Receiver<Option<Closed>>,
        shutdown_grace: Duration,
    ) -> Self {
        Self { server, runtime, closed, shutdown_grace }
    }

    pub(crate) fn at_work(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn weak_server(&self) -> WeakServer {
        WeakServer::of(&self.server)
    }

    /// This server's id, as it is seen on the store and in every server's log: `host-pid-random`.
    pub fn server(&self) -> &str {
        &self.server.id
    }

    /// Whether jobs can start, for a readiness probe.
    pub fn health(&self) -> Health {
        if self.closed.borrow().is_some() || self.server.stop.is_raised() {
            return Health::Stopped;
        }
        if let Some(blocked_for) = self.server.app.blocked_for() {
            return Health::ApplicationBlocked { blocked_for };
        }
        self.server.health.get()
    }

    /// Looks for what could hurt: settings of the store, its clock, states that this version cannot read. The same was
    /// said in the log at start; an empty list is good news.
    ///
    /// ```
    /// # async fn look(jobs: jobs::Jobs) -> Result<(), jobs::store::StoreError> {
    /// for finding in jobs.diagnose().await? {
    ///     println!("{:?}: {finding}", finding.severity);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        let server = self.server.clone();
        let looking = self.runtime.spawn(async move { diagnosis::examine(&server).await });
        looking.await.unwrap_or_else(|_| Err(self.ended("diagnose")))
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
    ///
    /// Locks that are held by hand are kept alive for the grace, too. Then code under a
    /// [`run`](crate::locks::Lock::run) is dropped and its lock released; the holder of a [`Guard`](crate::locks::Guard) is told, and
    /// its lock expires by itself.
    pub async fn shutdown(self) {
        let keys = self.going_on();
        if !keys.is_empty() {
            let grace = self.shutdown_grace;
            tracing::info!(target: "jobs", keys, ?grace, "shutting down; waiting up to {grace:?} for {keys}");
        }
        self.server.stop.raise();
        let patience = self.shutdown_grace.saturating_add(CANCELLED_WITHIN);
        if tokio::time::timeout(patience, self.closed()).await.is_err() {
            let keys = self.going_on();
            if keys.is_empty() {
                tracing::warn!(target: "jobs", "shut down, but the store did not answer in time: leases expire by themselves");
                return;
            }
            tracing::warn!(
                target: "jobs", keys,
                "shut down, but these runs block and cannot be cancelled: {keys}; their leases are kept while they go \
                 on and expire when the process ends"
            );
        }
    }

    /// What a shutdown waits for, by its keys.
    fn going_on(&self) -> String {
        [self.server.running.keys(), self.server.held.keys()].concat().join(", ")
    }

    /// Everything that happens on this server from now on.
    pub fn events(&self) -> Events {
        self.server.events.subscribe(self.server.time.now())
    }

    /// What the store knows of a job: the run that goes on, the newest runs and skips, counts over all runs.
    ///
    /// Of a job that nobody knows it is an error, like every question about one.
    pub async fn history(&self, key: &str) -> Result<History, StoreError> {
        let history = self.look(key).await?;
        if history == History::default() {
            self.must_be_known("history", key).await?;
        }
        Ok(history)
    }

    async fn look(&self, key: &str) -> Result<History, StoreError> {
        let key = key.to_owned();
        let (history, _) = self
            .ask("history", move |server| async move { server.requests(ASK_WITHIN).history(&key).await })
            .await?;
        Ok(history)
    }

    /// The servers that share this store and namespace: what they schedule, and what runs there.
    ///
    /// A server announces itself every 20 s, and is gone from the list 45 s after it died.
    pub async fn servers(&self) -> Result<Vec<ServerInfo>, StoreError> {
        self.ask("servers", move |server| async move { server.requests(ASK_WITHIN).servers().await }).await
    }

    /// Makes every server skip the job's ticks until it is [resumed](Jobs::resume). A run that goes on is left alone,
    /// and the job can still be [run by hand](Jobs::run_now).
    pub async fn pause(&self, key: &str) -> Result<(), StoreError> {
        self.set_paused("pause", key, true).await
    }

    /// Lets the job's ticks run again. Those that passed meanwhile were skipped, and none of them runs now; if no server was
    /// there to skip them, the next run reports them as [missed](crate::events::EventKind::Missed).
    pub async fn resume(&self, key: &str) -> Result<(), StoreError> {
        self.set_paused("resume", key, false).await
    }

    /// Runs a job now, by hand: under its lock, beside no other run, and without consuming a tick. Returns when the
    /// run has ended; dropping the future does not stop it.
    ///
    /// If this program does not have the job, or it is disabled here, another server is asked: within about 20 s one
    /// that has it takes the request up, when it announces itself. After 45 s without one it is
    /// [`NoServer`](RunNow::NoServer).
    pub async fn run_now(&self, key: &str) -> Result<RunNow, StoreError> {
        let server = self.server.clone();
        let job = server.jobs.get(key).cloned();
        self.must_be_known("run_now", key).await?;
        let key = key.to_owned();
        let (done, outcome) = oneshot::channel();
        let run = async move {
            let outcome = match job {
                Some(job) => manual_run::run_here(&server, &job).await,
                None => manual_run::run_elsewhere(&server, &key).await,
            };
            let _caller_is_gone = done.send(outcome);
        };
        self.server.spawn(run);
        outcome.await.unwrap_or_else(|_| Err(self.ended("run_now")))
    }

    /// Asks the server that runs the job to cancel the run, and waits until it has ended: `true` if a run was in progress.
    ///
    /// The server sees the request at its next extension, after a third of the job's ttl at most. A run that blocks goes on
    /// until its next `await`. To free the key of a server that does not answer, [break](Jobs::break_lock) its lock.
    pub async fn cancel(&self, key: &str) -> Result<bool, StoreError> {
        self.must_be_known("cancel", key).await?;
        let name = key.to_owned();
        let asked = self.ask("cancel", move |server| async move {
            server.requests(ASK_WITHIN).cancel(&name, &server.id).await
        });
        let Some(CurrentRun { fence, .. }) = asked.await? else { return Ok(false) };
        while self.look(key).await?.current.is_some_and(|run| run.fence == fence) {
            tokio::time::sleep(CANCEL_POLL).await;
        }
        Ok(true)
    }

    /// Makes a job run again whose mark lies in the future of the store's clock: the log says so when a tick
    /// is skipped for it. Ticks between now and that mark may then run a second time.
    pub async fn reset(&self, key: &str) -> Result<(), StoreError> {
        self.must_be_known("reset", key).await?;
        let key = key.to_owned();
        self.ask("reset", move |server| async move { server.requests(ASK_WITHIN).reset(&key).await }).await
    }

    /// Removes all that the store knows of a job that no server has any more.
    ///
    /// It is refused while the job is held or paused, while a server that is alive has it, within an hour of its last use,
    /// and until the grace of its last tick is over: without its mark a server that comes late could run a tick again.
    pub async fn forget(&self, key: &str) -> Result<Forgotten, StoreError> {
        self.must_be_known("forget", key).await?;
        let scheduled = |server: &ServerInfo| server.jobs.iter().any(|job| job.key == key);
        if let Some(server) = self.servers().await?.into_iter().find(scheduled) {
            return Ok(Forgotten::Scheduled(server.id));
        }
        let key = key.to_owned();
        self.ask("forget", move |server| async move { server.requests(ASK_WITHIN).forget(&key, QUIET).await })
            .await
    }

    async fn set_paused(&self, step: &'static str, key: &str, paused: bool) -> Result<(), StoreError> {
        self.must_be_known(step, key).await?;
        let key = key.to_owned();
        self.ask(
            step,
            move |server| async move { server.requests(ASK_WITHIN).set_paused(&key, paused).await },
        )
        .await
    }

    /// A typing mistake must not look like success.
    async fn must_be_known(&self, step: &'static str, key: &str) -> Result<(), StoreError> {
        if self.server.jobs.contains_key(key) || self.look(key).await? != History::default() {
            return Ok(());
        }
        let announced = |server: ServerInfo| server.jobs.iter().any(|job| job.key == key);
        if self.servers().await?.into_iter().any(announced) {
            return Ok(());
        }
        let why = format!(
            "there is no job \"{key}\": neither here, nor on the store, nor on a server that is alive"
        );
        Err(StoreError::new(StoreErrorKind::NoSuchJob, step, self.server.store.location(), why))
    }

    /// Asks the store on the scheduler's thread, where its connection lives.
    pub(crate) async fn ask<T, F, Fut>(&self, step: &'static str, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Server>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let asking = self.runtime.spawn(question(self.server.clone()));
        asking.await.unwrap_or_else(|_| Err(self.ended(step)))
    }

    fn ended(&self, step: &'static str) -> StoreError {
        let location = self.server.store.location();
        StoreError::new(StoreErrorKind::Unreachable, step, location, "the scheduler has ended")
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if self.server.stop.is_raised() || self.closed.borrow().is_some() {
            return;
        }
        if self.server.jobs.is_empty() && self.server.held.keys().is_empty() {
            return self.server.stop.raise();
        }
        tracing::warn!(
            target: "jobs", server = &*self.server.id,
            "the handle to the jobs was dropped without `shutdown`: no further tick is claimed, runs are cancelled, and \
             locks are lost"
        );
        self.server.stop.raise();
        self.server.cancel_runs.raise();
    }
}
