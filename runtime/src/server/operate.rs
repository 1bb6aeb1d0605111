//! The operator's calls: they query jobs and servers, and change jobs on every server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Server;
use super::error::OperateError;
use super::handle::Jobs;
use super::manual_run::{self, RunNow};
use crate::diagnosis::Finding;
use crate::fleet::{Forgotten, ServerInfo};
use crate::history::{CurrentRun, History};
use crate::observe::diagnosis;
use crate::store::StoreError;

/// How often a caller looks whether a cancelled run has ended.
const CANCEL_POLL: Duration = Duration::from_millis(250);

/// How long a request to the store may take.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// A job must have been unused for this long before it can be forgotten.
const QUIET: Duration = Duration::from_secs(3600);

impl Jobs {
    /// Checks the store's settings, its clock, and whether this version can read the states of the jobs. The start of the
    /// scheduler logs the same findings. An empty list means that nothing was found.
    ///
    /// ```
    /// # async fn diagnose(jobs: jobs::Jobs) -> Result<(), jobs::OperateError> {
    /// for finding in jobs.diagnose().await? {
    ///     println!("{:?}: {finding}", finding.severity);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn diagnose(&self) -> Result<Vec<Finding>, OperateError> {
        self.ask(|server| async move { diagnosis::examine(&server).await }).await
    }

    /// The history of a job: the current run, the newest runs and skips, and counts over all runs.
    pub async fn history(&self, key: &str) -> Result<History, OperateError> {
        let history = self.look(key).await?;
        if history == History::default() {
            self.must_be_known(key).await?;
        }
        Ok(history)
    }

    async fn look(&self, key: &str) -> Result<History, OperateError> {
        let key = key.to_owned();
        let (history, _now) =
            self.ask(|server| async move { server.requests(ASK_WITHIN).history(&key).await }).await?;
        Ok(history)
    }

    /// The servers that share this store and namespace, the jobs that they have, and the runs in progress there.
    ///
    /// A server announces itself every 20 s. It disappears from the list 45 s after it died.
    pub async fn servers(&self) -> Result<Vec<ServerInfo>, OperateError> {
        self.ask(|server| async move { server.requests(ASK_WITHIN).servers().await }).await
    }

    /// Makes every server skip the job's ticks until the job is [resumed](Jobs::resume). The current run continues, and
    /// [manual runs](Jobs::run_now) can still start.
    pub async fn pause(&self, key: &str) -> Result<(), OperateError> {
        self.set_paused(key, true).await
    }

    /// Lets the job's ticks run again. Ticks that passed meanwhile were skipped, and do not run now; if no server was there to
    /// skip them, the next run reports them as [missed](crate::events::EventKind::Missed).
    pub async fn resume(&self, key: &str) -> Result<(), OperateError> {
        self.set_paused(key, false).await
    }

    /// Starts a manual run: it runs now, under the job's lock, beside no other run of it, and consumes no tick. Returns when
    /// the run has ended. Dropping the future does not stop the run.
    ///
    /// If this program does not have the job, or it is disabled here, another server that has it starts the run, within
    /// about 20 s: servers look for requests when they announce themselves. After 45 s without such a server the result
    /// is [`NoServer`](RunNow::NoServer).
    pub async fn run_now(&self, key: &str) -> Result<RunNow, OperateError> {
        self.must_be_known(key).await?;
        let (server, key) = (self.server().clone(), key.to_owned());
        let (done, outcome) = oneshot::channel();
        self.server().spawn(async move {
            let outcome = match server.jobs.get(&key).cloned() {
                Some(job) => manual_run::run_here(&server, &job).await,
                None => manual_run::run_elsewhere(&server, &key).await,
            };
            let _caller_is_gone = done.send(outcome);
        });
        outcome.await.unwrap_or(Err(OperateError::ShuttingDown))
    }

    /// Asks the server that runs the job to cancel the run, and waits until it has ended. Returns whether a run was in
    /// progress.
    ///
    /// The server sees the request at its next extension, after a third of the job's ttl at most. A run that blocks continues
    /// until its next `await`. If the server does not respond, [break](Jobs::break_lock) its lock.
    pub async fn cancel(&self, key: &str) -> Result<bool, OperateError> {
        self.must_be_known(key).await?;
        let name = key.to_owned();
        let asked =
            self.ask(|server| async move { server.requests(ASK_WITHIN).cancel(&name, &server.id).await });
        let Some(CurrentRun { fence, .. }) = asked.await? else { return Ok(false) };
        while self.look(key).await?.current.is_some_and(|run| run.fence == fence) {
            tokio::time::sleep(CANCEL_POLL).await;
        }
        Ok(true)
    }

    /// Makes a job run again whose mark lies in the future of the store's clock; the log reports that when it skips a tick.
    /// Ticks between now and that mark may then run a second time.
    pub async fn reset(&self, key: &str) -> Result<(), OperateError> {
        self.must_be_known(key).await?;
        let key = key.to_owned();
        self.ask(|server| async move { server.requests(ASK_WITHIN).reset(&key).await }).await
    }

    /// Removes everything that the store has about a job that no server has any more.
    ///
    /// It is refused while the job is held or paused, while a live server has it, within an hour of its last use, and until
    /// the grace of its last tick is over: without its mark a late server could run a tick again.
    pub async fn forget(&self, key: &str) -> Result<Forgotten, OperateError> {
        self.must_be_known(key).await?;
        let has_job = |server: &ServerInfo| server.jobs.iter().any(|job| job.key == key);
        if let Some(server) = self.servers().await?.into_iter().find(has_job) {
            return Ok(Forgotten::Scheduled(server.id));
        }
        let key = key.to_owned();
        self.ask(|server| async move { server.requests(ASK_WITHIN).forget(&key, QUIET).await }).await
    }

    async fn set_paused(&self, key: &str, paused: bool) -> Result<(), OperateError> {
        self.must_be_known(key).await?;
        let key = key.to_owned();
        self.ask(|server| async move { server.requests(ASK_WITHIN).set_paused(&key, paused).await }).await
    }

    /// A misspelled key must not look like success.
    async fn must_be_known(&self, key: &str) -> Result<(), OperateError> {
        if self.server().jobs.contains_key(key) || self.look(key).await? != History::default() {
            return Ok(());
        }
        let has_job = |server: ServerInfo| server.jobs.iter().any(|job| job.key == key);
        if self.servers().await?.into_iter().any(has_job) {
            return Ok(());
        }
        Err(OperateError::NoSuchJob { key: key.to_owned() })
    }

    /// Sends requests to the store on the scheduler's thread, where its connection lives.
    pub(crate) async fn ask<T, F, Fut>(&self, requests: F) -> Result<T, OperateError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Server>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let asking = self.runtime().spawn(requests(self.server().clone()));
        // The scheduler's runtime has ended, and the request with it.
        let answer = asking.await.map_err(|_| OperateError::ShuttingDown)?;
        Ok(answer?)
    }
}
