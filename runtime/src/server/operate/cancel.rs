//! Cancelling the run of a job.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use super::ASK_WITHIN;
use crate::fleet::ActionKind;
use crate::history::{CurrentRun, RunRecord};
use crate::server::error::OperateError;
use crate::server::handle::{A_YEAR, Jobs};
use crate::util::duration::IntoDuration;

/// How often a caller looks whether a cancelled run has ended.
const POLL: Duration = Duration::from_millis(250);

/// How long a caller waits for the end of the run, unless it says otherwise.
const WAIT: Duration = Duration::from_secs(60);

/// A cancellation that is about to be sent: [`Jobs::cancel`]. Await it.
#[derive(Clone)]
#[must_use = "the run is cancelled when this is awaited"]
pub struct Cancelling {
    jobs: Jobs,
    key: String,
    within: Result<Duration, String>,
}

/// The result of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The job was not running.
    NotRunning,
    /// The run has ended, with this record.
    Ended(RunRecord),
    /// The run has ended, and the store no longer keeps its record.
    EndedWithoutRecord,
    /// The run has not ended in time. Its server may hang, or the run may block: [break](Jobs::break_lock) its lock if it must not
    /// keep other servers from running.
    StillRunning(CurrentRun),
}

impl Cancelling {
    /// Waits for the end of the run for this long. One minute by default.
    pub fn within(mut self, duration: impl IntoDuration) -> Self {
        self.within = duration.into_duration();
        self
    }
}

impl IntoFuture for Cancelling {
    type Output = Result<CancelOutcome, OperateError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { jobs, key, within } = self;
            let within = within.map_err(|problem| OperateError::Invalid { setting: "within", problem })?;
            let within = within.min(A_YEAR);
            jobs.must_be_known(&key).await?;
            let (name, by) = (key.clone(), jobs.actor());
            let asked =
                jobs.ask(|server| async move { server.requests(ASK_WITHIN).cancel(&name, &by).await });
            let Some(run) = asked.await? else { return Ok(CancelOutcome::NotRunning) };
            jobs.note_action(ActionKind::Cancel, Some(&key), None).await;
            jobs.end_of(&key, run, within).await
        })
    }
}

impl Jobs {
    /// Asks the server that runs the job to cancel the run, waits until it has ended, and returns how. Its tick is over: no other
    /// server takes it up.
    ///
    /// The server is notified at once if the store has notifications (Redis, PostgreSQL without a pooler, memory). Otherwise it
    /// sees the request at its next extension, after a third of the job's ttl at most. A run that blocks continues until its next
    /// `await`. A run with `keep_alive = false` makes no extension, and is not cancelled.
    pub fn cancel(&self, key: &str) -> Cancelling {
        Cancelling { jobs: self.clone(), key: key.to_owned(), within: Ok(WAIT) }
    }

    /// Waits for the end of a run.
    async fn end_of(
        &self,
        key: &str,
        mut run: CurrentRun,
        within: Duration,
    ) -> Result<CancelOutcome, OperateError> {
        let give_up = Instant::now() + within;
        loop {
            let history = self.look(key).await?;
            match history.current.filter(|current| current.fence == run.fence) {
                Some(current) => run = current,
                None => {
                    let record = history.runs.into_iter().find(|record| record.fence == run.fence);
                    return Ok(record.map_or(CancelOutcome::EndedWithoutRecord, CancelOutcome::Ended));
                }
            }
            if Instant::now() >= give_up {
                return Ok(CancelOutcome::StillRunning(run));
            }
            tokio::time::sleep(POLL.min(give_up.duration_since(Instant::now()))).await;
        }
    }
}
