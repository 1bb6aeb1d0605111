//! One run of a job's function on the application's runtime.

use std::any::Any;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use singleton_jobs_policy::OnLost;
use tokio::task::{JoinError, JoinHandle};

use crate::extract::Context;
use crate::job::Job;
use crate::outcome::{BoxError, cut, describe_error};
use crate::proof::Proof;
use crate::registry::JobFuture;
use crate::run::Run;
use crate::server::Server;
use crate::store::{Ending, RunOutcome};

/// The job's function on the application's runtime: `None` if it was not polled to its end because the lease
/// was lost.
pub(crate) type Running = JoinHandle<Option<Result<(), BoxError>>>;

/// Starts the job's function.
pub(crate) fn start(server: &Server, job: &Arc<Job>, run: &Run, proof: &Arc<Proof>) -> Running {
    let context = Context { run: run.clone(), states: server.states.clone() };
    server.app.spawn(under_lease(job.clone(), context, proof.clone()))
}

/// Watches over a run, cancels it when it must end, and returns only when its future is gone.
pub(crate) async fn watch(server: &Server, job: &Job, run: &Run, proof: &Proof, mut task: Running) -> Ending {
    let timeout = async {
        match job.policy.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let stopped_by = tokio::select! {
        ended = &mut task => return ending(ended, RunOutcome::Cancelled),
        () = proof.lost() => RunOutcome::LeaseLost,
        () = server.cancel_runs.cancelled() => RunOutcome::Cancelled,
        () = timeout => RunOutcome::TimedOut,
    };
    run.cancel();
    if stopped_by != RunOutcome::LeaseLost || job.policy.on_lost == OnLost::Cancel {
        task.abort();
    }
    ending(task.await, stopped_by)
}

/// Polls the job only while its lease is proved. A process that was stopped or suspended may find its lease
/// gone when it wakes, before anybody could tell it: the job must not go on even to its next `await`.
async fn under_lease(job: Arc<Job>, context: Context, proof: Arc<Proof>) -> Option<Result<(), BoxError>> {
    let keeps_on = job.policy.on_lost == OnLost::Continue;
    let mut future: Option<JobFuture> = None;
    poll_fn(move |polling| {
        if !(keeps_on && future.is_some()) {
            match proof.poll_valid(polling) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        future.get_or_insert_with(|| (job.call)(&context)).as_mut().poll(polling).map(Some)
    })
    .await
}

fn ending(ended: Result<Option<Result<(), BoxError>>, JoinError>, stopped_by: RunOutcome) -> Ending {
    match ended {
        Ok(Some(Ok(()))) => Ending { outcome: RunOutcome::Succeeded, error: None },
        Ok(Some(Err(error))) => {
            Ending { outcome: RunOutcome::Failed, error: Some(describe_error(error.as_ref())) }
        }
        Ok(None) => Ending { outcome: RunOutcome::LeaseLost, error: None },
        Err(gone) if gone.is_panic() => {
            Ending { outcome: RunOutcome::Panicked, error: Some(panic_message(gone.into_panic().as_ref())) }
        }
        Err(_) => Ending { outcome: stopped_by, error: None },
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    cut(text.unwrap_or("a panic without a message"))
}
