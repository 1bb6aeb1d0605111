//! Functions of the application: one that is called for every event, and the hooks of a job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::event::{Event, Events};
use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::job::hooks::{EndedRun, HookFunction, OverdueTick};
use crate::job::outcome::describe_error;
use crate::server::Server;
use crate::tick::try_task::panic_message;

/// A function given to [`Builder::on_event`](crate::Builder::on_event). It is called on the application's
/// runtime, for one event after the other.
pub(crate) struct EventHook(pub(crate) Box<dyn Fn(&Event) + Send + Sync>);

impl EventHook {
    /// Calls the function for every event. One that panics is called again for the next event, and one that
    /// is slow loses events: neither affects a run.
    pub(crate) async fn listen(self, mut events: Events) {
        while let Some(event) = events.next().await {
            if catch_unwind(AssertUnwindSafe(|| (self.0)(&event))).is_err() {
                tracing::error!(target: "jobs", ?event, "the function given to `on_event` panicked");
            }
        }
    }
}

/// How long a call of a job's hook may take.
const CALL_WITHIN: Duration = Duration::from_secs(30);

/// The same once a shutdown has cancelled the runs: less than it waits for runs to end.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// Calls the hook for a run that has ended, if its job has one.
pub(crate) fn run_ended(server: &Arc<Server>, job: &Job, record: &RunRecord) {
    let (name, hook) = match record.outcome {
        RunOutcome::Succeeded => ("on_success", &job.hooks.success),
        _ => ("on_failure", &job.hooks.failure),
    };
    if let Some(hook) = hook {
        let run = EndedRun { key: job.policy.key.clone(), record: record.clone() };
        call(server, job, name, hook, run);
    }
}

/// Calls the hook for a tick that is overdue, if its job has one.
pub(crate) fn tick_overdue(server: &Arc<Server>, job: &Job, tick: Timestamp) {
    if let Some(hook) = &job.hooks.overdue {
        let tick = OverdueTick { key: job.policy.key.clone(), tick, server: server.id.to_string() };
        call(server, job, "on_overdue", hook, tick);
    }
}

/// Calls a hook on the application's runtime, in a task that a shutdown waits for. A run does not wait for it.
fn call<E: Send + 'static>(
    server: &Arc<Server>,
    job: &Job,
    name: &'static str,
    hook: &HookFunction<E>,
    event: E,
) {
    let (key, hook, server) = (job.policy.key.clone(), hook.clone(), server.clone());
    server.clone().spawn(async move {
        let states = server.states.clone();
        let mut calling = server.app.spawn(async move {
            // As text, since an error's own code may panic or block.
            hook(event, &states).await.map_err(|error| describe_error(error.as_ref()))
        });
        let stopped = async {
            server.cancel_runs.raised().await;
            sleep(FINISH_WITHIN).await;
        };
        let problem = tokio::select! {
            biased;
            called = timeout(CALL_WITHIN, &mut calling) => match called {
                Ok(Ok(Ok(()))) => return,
                Ok(Ok(Err(error))) => format!("failed: {error}"),
                Ok(Err(panic)) if panic.is_panic() => format!("panicked: {}", panic_message(panic.into_panic())),
                Ok(Err(_)) => "was cancelled: the application's runtime has ended".to_owned(),
                Err(_) => format!("was cancelled: it took longer than {CALL_WITHIN:?}"),
            },
            () = stopped => "was cancelled by the shutdown".to_owned(),
        };
        calling.abort();
        tracing::warn!(target: "jobs", key, server = &*server.id, hook = name, "[{key}] the hook `{name}` {problem}");
    });
}
