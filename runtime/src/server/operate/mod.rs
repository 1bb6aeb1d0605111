//! The operator's calls: they query jobs and servers, and change jobs on every server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use manual_run::RunNow;

use super::Server;
use super::error::OperateError;
use super::handle::Jobs;
use crate::diagnosis::Finding;
use crate::fleet::{Action, ActionKind, Forgotten, Overview, ServerInfo, Ticks};
use crate::history::History;
use crate::observe::diagnosis;
use crate::observe::fleet::memory::OverviewMemory;
use crate::store::StoreError;

mod cancel;
pub(crate) mod manual_run;
mod pause;

pub use cancel::{CancelOutcome, Cancelling};
pub use pause::{Pausing, PausingAll};

/// How long a request to the store may take.
pub(super) const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Number of the newest runs, and of skips, that an overview shows of each job.
const OVERVIEW_RUNS: usize = 20;

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

    /// The ticks of a job: whether each one ran, and why if it did not.
    ///
    /// ```
    /// # async fn explain(jobs: jobs::Jobs) -> Result<(), jobs::OperateError> {
    /// for tick in jobs.ticks("import-products").await?.newest(10) {
    ///     println!("{} {}", tick.tick, tick.reason);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn ticks(&self, key: &str) -> Result<Ticks, OperateError> {
        self.must_be_known(key).await?;
        let key = key.to_owned();
        self.ask(|server| async move { server.requests(ASK_WITHIN).ticks(&key).await }).await
    }

    pub(super) async fn look(&self, key: &str) -> Result<History, OperateError> {
        let key = key.to_owned();
        let (history, _now) =
            self.ask(|server| async move { server.requests(ASK_WITHIN).history(&key).await }).await?;
        Ok(history)
    }

    /// Everything at once: all jobs with their schedules, next ticks, newest runs, pauses and problems, the servers, the locks,
    /// and the actions of operators. It takes a few requests for each thousand jobs, and for each node of a cluster.
    pub async fn overview(&self) -> Result<Overview, OperateError> {
        self.overview_after(&mut OverviewMemory::default(), OVERVIEW_RUNS).await
    }

    /// The overview with this number of the newest runs and skips of each job, after others that left this memory.
    pub(crate) async fn overview_after(
        &self,
        memory: &mut OverviewMemory,
        newest: usize,
    ) -> Result<Overview, OperateError> {
        let mut known = std::mem::take(&mut memory.reads);
        let (parts, known) = self
            .ask(move |server| async move {
                let parts = server.requests(ASK_WITHIN).overview(newest, &mut known).await;
                Ok((parts, known))
            })
            .await?;
        memory.reads = known;
        // On the caller's thread: a scheduler has ticks to start.
        Ok(Overview::of(parts?, memory))
    }

    /// The servers that share this store and namespace, the jobs that they have, and the runs in progress there.
    ///
    /// A server announces itself every 20 s. It disappears from the list 45 s after it died.
    pub async fn servers(&self) -> Result<Vec<ServerInfo>, OperateError> {
        self.ask(|server| async move { server.requests(ASK_WITHIN).servers().await }).await
    }

    /// A handle whose actions are recorded in this name: `jobs.by("anna").pause("import-products")`. Without it they are recorded
    /// with the id of this server.
    pub fn by(&self, who: impl Into<String>) -> Self {
        self.acting_as(who.into().into())
    }

    /// The newest actions of operators, newest first: pauses, manual runs and so on, with who and when.
    pub async fn audit(&self) -> Result<Vec<Action>, OperateError> {
        let fleet = self.ask(|server| async move { server.requests(ASK_WITHIN).fleet_state().await });
        Ok(fleet.await?.actions)
    }

    /// Starts a manual run: it runs now, under the job's lock, beside no other run of it, and consumes no tick. Returns when
    /// the run has ended. Dropping the future does not stop the run.
    ///
    /// If this program does not have the job, or it is disabled here, another server that has it starts the run: at once if the
    /// store notifies, and within about 20 s otherwise, with its next heartbeat. After 45 s without such a server the result
    /// is [`NoServer`](RunNow::NoServer).
    pub async fn run_now(&self, key: &str) -> Result<RunNow, OperateError> {
        self.must_be_known(key).await?;
        let (server, key, by) = (self.server().clone(), key.to_owned(), self.actor());
        let (done, outcome) = oneshot::channel();
        self.server().spawn(async move {
            let outcome = match server.jobs.get(&key).cloned() {
                Some(job) => manual_run::run_here(&server, &job, by).await,
                None => manual_run::run_elsewhere(&server, &key, &by).await,
            };
            let _caller_is_gone = done.send(outcome);
        });
        outcome.await.unwrap_or(Err(OperateError::ShuttingDown))
    }

    /// Makes a job run again whose mark lies in the future of the store's clock; the log reports that when it skips a tick.
    /// Ticks between now and that mark may then run a second time.
    pub async fn reset(&self, key: &str) -> Result<(), OperateError> {
        self.must_be_known(key).await?;
        let name = key.to_owned();
        self.ask(|server| async move { server.requests(ASK_WITHIN).reset(&name).await }).await?;
        self.note_action(ActionKind::Reset, Some(key), None).await;
        Ok(())
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
        let name = key.to_owned();
        let forgotten =
            self.ask(|server| async move { server.requests(ASK_WITHIN).forget(&name, QUIET).await }).await?;
        if forgotten == Forgotten::Yes {
            self.note_action(ActionKind::Forget, Some(key), None).await;
        }
        Ok(forgotten)
    }

    /// The keys of all jobs that the store or a server knows.
    pub(super) async fn known_jobs(&self) -> Result<Vec<String>, OperateError> {
        let mut keys = self.ask(|server| async move { server.requests(ASK_WITHIN).jobs().await }).await?;
        keys.extend(self.servers().await?.into_iter().flat_map(|server| server.jobs).map(|job| job.key));
        keys.extend(self.server().jobs.keys().cloned());
        Ok(keys.into_iter().collect())
    }

    /// Adds an action of this handle's actor to the list of the fleet.
    pub(crate) async fn note_action(&self, what: ActionKind, key: Option<&str>, note: Option<Arc<str>>) {
        let at = self.server().time.now();
        let action = Action { at, by: self.actor(), what, key: key.map(Into::into), note };
        let notify = matches!(what, ActionKind::Cancel | ActionKind::Unlock);
        let noting = self.ask(|server| async move {
            add_to_audit(&server, &action, notify).await;
            Ok(())
        });
        // The action is done, also if this server has ended meanwhile.
        let _has_ended = noting.await;
    }

    /// A misspelled key must not look like success.
    pub(super) async fn must_be_known(&self, key: &str) -> Result<(), OperateError> {
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

/// Adds an action to the list of the fleet, and notifies the servers if it concerns a run of theirs. The action itself is done
/// by now, so a failure is only logged: the servers learn of it with their next heartbeat or extension.
async fn add_to_audit(server: &Server, action: &Action, notify: bool) {
    if let Err(error) = server.requests(ASK_WITHIN).note_action(action, notify).await {
        let (what, key) = (action.what, action.key.as_deref());
        tracing::warn!(target: "jobs", %what, key, %error, "an operator's action is not in the audit list");
    }
}
