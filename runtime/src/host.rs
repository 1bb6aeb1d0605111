//! The scheduler's own thread: a job that blocks the application's runtime does not lose its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::claim::Backoff;
use crate::clock::Clock;
use crate::config::Chosen;
use crate::error::StartError;
use crate::extract::States;
use crate::handle::{Closed, Jobs};
use crate::job::Job;
use crate::roster::Checked;
use crate::scheduler;
use crate::server::{Server, server_id};

pub(crate) struct Plan {
    pub(crate) jobs: Checked,
    pub(crate) chosen: Chosen,
    pub(crate) app: runtime::Handle,
    pub(crate) states: States,
    pub(crate) server_name: Option<String>,
    pub(crate) max_concurrent: Option<usize>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) start_degraded: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

/// How long an unreachable store is tried at start.
const REACH_FOR: Duration = Duration::from_secs(10);

type Ready = Result<(Arc<Server>, runtime::Handle), StartError>;

/// Starts the thread, and returns when it schedules or has given up.
pub(crate) async fn start(plan: Plan) -> Result<Jobs, StartError> {
    let (ready, started) = oneshot::channel();
    let (closing, closed) = watch::channel(None);
    let shutdown_grace = plan.shutdown_grace;
    let thread = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
        let reason = match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let reason = runtime.block_on(host(plan, ready));
                // A blocked file operation must not keep the thread.
                runtime.shutdown_background();
                reason
            }
            Err(error) => {
                let _ = ready.send(Err(StartError::Thread(error))); // nobody waits: the caller was dropped
                Closed::ShutDown
            }
        };
        closing.send_replace(Some(reason));
    });
    thread.map_err(StartError::Thread)?;
    match started.await {
        Ok(Ok((server, runtime))) => Ok(Jobs::new(server, runtime, closed, shutdown_grace)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StartError::Thread(std::io::Error::other("it ended before it had started"))),
    }
}

async fn host(plan: Plan, ready: oneshot::Sender<Ready>) -> Closed {
    let id = server_id(plan.server_name.as_deref());
    let server = Server::new(id, plan.chosen.store, plan.clock, plan.states, plan.app, plan.max_concurrent);
    let server = Arc::new(server);
    if let Err(error) = reach(&server).await {
        if !plan.start_degraded {
            let _ = ready.send(Err(StartError::Store { source: plan.chosen.source, error })); // as above
            return Closed::ShutDown;
        }
        tracing::error!(target: "jobs", %error, "starting without the store; no job runs until it answers");
    }
    announce(&server, &plan.chosen.source, &plan.jobs);

    let jobs = plan.jobs.jobs.into_iter().map(Arc::new).collect();
    let schedule = tokio::spawn(scheduler::schedule(server.clone(), jobs));
    let watch = tokio::spawn(scheduler::watch_clock(server.clone()));
    let handle = runtime::Handle::current();
    if ready.send(Ok((server.clone(), handle))).is_err() {
        server.stop.cancel(); // `start_all` was dropped while it waited
    }

    tokio::select! {
        () = server.stop.cancelled() => {}
        () = server.failed.cancelled() => server.stop.cancel(),
    }
    schedule.abort();
    watch.abort();
    finish(&server, plan.shutdown_grace).await;
    if server.failed.is_cancelled() { Closed::Failed } else { Closed::ShutDown }
}

async fn reach(server: &Server) -> Result<(), crate::StoreError> {
    let give_up = Instant::now() + REACH_FOR;
    let mut backoff = Backoff::new();
    loop {
        match server.ask("ping", Duration::from_secs(3), server.store.ping()).await {
            Ok(_) => return Ok(()),
            // A refusal (a wrong password, say) will not go away by itself.
            Err(error) if Instant::now() >= give_up || !error.kind().may_pass() => return Err(error),
            Err(_) => tokio::time::sleep(backoff.next()).await,
        }
    }
}

/// Lets runs finish within the grace, cancels the rest, and waits until every one of them is gone: a run that
/// blocks keeps its lease for as long as it goes on.
pub(crate) async fn finish(server: &Server, grace: Duration) {
    server.ticks.close();
    tokio::select! {
        () = server.ticks.wait() => return,
        () = tokio::time::sleep(grace) => {}
        () = server.cancel_runs.cancelled() => {}
    }
    server.cancel_runs.cancel();
    server.ticks.wait().await;
}

fn announce(server: &Server, source: &str, jobs: &Checked) {
    let store = server.store.location();
    tracing::info!(target: "jobs", server = server.id, "store {store}, from {source}");
    for job in &jobs.jobs {
        announce_job(server, job);
    }
    for job in &jobs.disabled {
        let (key, place) = (&job.policy.key, &job.place);
        tracing::info!(target: "jobs", key, place, "[{key}] is disabled on this server");
    }
}

fn announce_job(server: &Server, job: &Job) {
    let (key, place) = (&job.policy.key, &job.place);
    let about = (!job.description.is_empty()).then_some(&job.description);
    match &job.policy.schedule {
        None => {
            tracing::info!(target: "jobs", key, place, about, "[{key}] has no schedule; it runs only by hand");
        }
        Some(schedule) => {
            let next =
                schedule.next_after(server.time.now()).map(|next| next.to_string()).unwrap_or_default();
            tracing::info!(target: "jobs", key, place, about, "[{key}] {schedule}, next at {next}");
        }
    }
    for argument in job.policy.not_in_effect() {
        tracing::warn!(target: "jobs", key, place, "[{key}] `{argument}` is checked but not acted on by this version");
    }
}
