//! One call of a job's function: a task on the application's runtime.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use singleton_jobs_policy::OnLost;
use tokio::task::JoinError;
use tracing::Span;

use super::poll_tracker::PollTracker;
use crate::history::RunOutcome;
use crate::job::outcome::{BoxError, cut, describe_error};
use crate::job::parameters::States;
use crate::job::registry::JobFuture;
use crate::job::run::Run;
use crate::job::{Job, current};
use crate::lease::validity::Validity;
use crate::util::clock::Stopwatch;
use crate::util::planted::{PlantedBug, is_planted};
use crate::util::spawner::SpawnedTask;

/// One try of a run, in progress.
pub(crate) struct TryTask {
    pub(crate) handle: SpawnedTask<TryResult>,
    pub(crate) polls: Arc<PollTracker>,
}

/// A try that has ended.
pub(crate) struct TryResult {
    pub(crate) outcome: RunOutcome,
    /// The text of the function's error or panic. Text, since an error's own code may panic or block.
    pub(crate) error: Option<String>,
    /// Why the try was cancelled, if it was. It may have returned all the same.
    pub(crate) stopped_by: Option<RunOutcome>,
    /// How long after its first poll the function returned, if it did. In real time, since a function that blocks does so: the
    /// clock of the application's runtime may be paused in a test.
    pub(crate) returned_after: Option<Duration>,
}

impl TryResult {
    fn new(outcome: RunOutcome, error: Option<String>) -> Self {
        Self { outcome, error, stopped_by: None, returned_after: None }
    }

    fn returned(result: Result<(), BoxError>, after: Duration) -> Self {
        let error = result.err().map(|error| describe_error(error.as_ref()));
        let outcome = if error.is_none() { RunOutcome::Succeeded } else { RunOutcome::Failed };
        Self { returned_after: Some(after), ..Self::new(outcome, error) }
    }

    /// The result of a task. A function that was cancelled may panic when it is dropped: that is recorded as
    /// its error, not as its outcome.
    pub(crate) fn of(joined: Result<Self, JoinError>, stopped_by: Option<RunOutcome>) -> Self {
        let result = match joined {
            Ok(result) => result,
            Err(error) if error.is_panic() => {
                Self::new(stopped_by.unwrap_or(RunOutcome::Panicked), Some(panic_message(error.into_panic())))
            }
            Err(_) => Self::new(stopped_by.unwrap_or(RunOutcome::Cancelled), None),
        };
        Self { stopped_by, ..result }
    }
}

/// Everything that a call of a job's function needs.
pub(crate) struct Call {
    pub(crate) job: Arc<Job>,
    pub(crate) run: Run,
    pub(crate) states: Arc<States>,
    pub(crate) validity: Arc<Validity>,
    pub(crate) polls: Arc<PollTracker>,
    /// The span of the run, in which the function executes.
    pub(crate) span: Span,
}

impl Call {
    /// Calls the function, and polls it only while its lease is valid. A process that was stopped or
    /// suspended may find its lease expired when it continues, before it could be notified: the function must
    /// not even continue to its next `await`.
    pub(crate) async fn poll_under_lease(self) -> TryResult {
        let Self { job, run, states, validity, polls, span } = self;
        let ignores_loss = job.policy.on_lost == OnLost::Continue;
        let mut future: Option<(JobFuture, Stopwatch)> = None;
        let returned = poll_fn(move |polling| {
            if !(is_planted(PlantedBug::PollsWithoutLease) || ignores_loss && future.is_some()) {
                match validity.poll_valid(polling) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => {
                        polls.revoke();
                        return Poll::Ready(None);
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            let Some(_poll) = polls.begin() else { return Poll::Ready(None) };
            let _current = current::enter(&run);
            let _in_span = span.enter();
            let (future, begun) = future.get_or_insert_with(|| {
                let begun = Stopwatch::start();
                ((job.call)(&run, &states), begun)
            });
            future.as_mut().poll(polling).map(|result| Some((result, begun.elapsed())))
        })
        .await;
        match returned {
            Some((result, after)) => TryResult::returned(result, after),
            None => TryResult::new(RunOutcome::LeaseLost, None),
        }
    }
}

pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = cut(text.unwrap_or("a panic without a message"));
    // The payload is the job's, and may panic again when it is dropped.
    let _dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}
