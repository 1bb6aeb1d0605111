//! One run of a job's function on the application's runtime.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use singleton_jobs_policy::OnLost;
use tokio::task::{JoinError, JoinHandle};

use crate::extract::Context;
use crate::job::Job;
use crate::outcome::{cut, describe_error};
use crate::proof::Proof;
use crate::registry::JobFuture;
use crate::run::Run;
use crate::server::Server;
use crate::store::{Ending, RunOutcome};

/// The job's function on the application's runtime: `None` if it was not polled to its end because the lease
/// was lost, and its error as text, since an error's own code may panic or block.
pub(crate) type Running = JoinHandle<Option<Result<(), String>>>;

/// Starts the job's function.
pub(crate) fn start(server: &Server, job: &Arc<Job>, run: &Run, proof: &Arc<Proof>) -> Running {
    let context = Context { run: run.clone(), states: server.states.clone() };
    server.app.spawn(under_lease(job.clone(), context, proof.clone()))
}

/// Watches over a run, cancels it when it must end, and returns only when its future is gone.
pub(crate) async fn watch(server: &Server, job: &Job, run: &Run, proof: &Proof, mut task: Running) -> Ending {
    let mut timeout = pin!(async {
        match job.policy.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    });
    let mut goes_on = job.policy.on_lost == OnLost::Continue;
    loop {
        let stopped_by = tokio::select! {
            ended = &mut task => {
                if ended.as_ref().is_err_and(JoinError::is_cancelled) {
                    server.fail("the application's runtime, on which jobs run, has ended");
                }
                return ending(ended, RunOutcome::Cancelled);
            }
            () = proof.lost(), if !run.is_cancelled() => RunOutcome::LeaseLost,
            () = server.cancel_runs.cancelled() => RunOutcome::Cancelled,
            () = &mut timeout => RunOutcome::TimedOut,
        };
        run.cancel();
        if stopped_by == RunOutcome::LeaseLost && std::mem::take(&mut goes_on) {
            continue;
        }
        task.abort();
        return ending(task.await, stopped_by);
    }
}

/// Polls the job only while its lease is proved. A process that was stopped or suspended may find its lease
/// gone when it wakes, before anybody could tell it: the job must not go on even to its next `await`.
async fn under_lease(job: Arc<Job>, context: Context, proof: Arc<Proof>) -> Option<Result<(), String>> {
    let keeps_on = job.policy.on_lost == OnLost::Continue;
    let mut future: Option<JobFuture> = None;
    let ended = poll_fn(move |polling| {
        if !(keeps_on && future.is_some()) {
            match proof.poll_valid(polling) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        future.get_or_insert_with(|| (job.call)(&context)).as_mut().poll(polling).map(Some)
    })
    .await?;
    Some(ended.map_err(|error| describe_error(error.as_ref())))
}

fn ending(ended: Result<Option<Result<(), String>>, JoinError>, stopped_by: RunOutcome) -> Ending {
    let (outcome, error) = match ended {
        Ok(Some(Ok(()))) => (RunOutcome::Succeeded, None),
        Ok(Some(Err(error))) => (RunOutcome::Failed, Some(error)),
        Ok(None) => (RunOutcome::LeaseLost, None),
        Err(gone) if gone.is_panic() => (RunOutcome::Panicked, Some(panic_message(gone.into_panic()))),
        Err(_) => (stopped_by, None),
    };
    Ending { outcome, error, failed_tries: Vec::new(), remember: crate::store::REMEMBERED }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = cut(text.unwrap_or("a panic without a message"));
    // What was thrown is the job's, and may panic again when it is dropped.
    let _dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}
