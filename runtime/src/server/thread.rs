//! The scheduler's own thread: a job that blocks the application's runtime does not lose its lease.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::config::Chosen;
use super::error::StartError;
use super::handle::{Closed, Jobs};
use super::heartbeat;
use super::roster::Checked;
use super::{Server, Setup, server_id};
use crate::diagnosis::Finding;
use crate::job::Job;
use crate::job::parameters::States;
use crate::locks;
use crate::observe::diagnosis;
use crate::observe::hook::Hook;
use crate::tick::clock_watch::watch_clock;
use crate::tick::scheduler;
use crate::util::backoff::Backoff;
use crate::util::clock::Clock;
use crate::util::tasks::Place;

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
    pub(crate) remember: usize,
    pub(crate) hooks: Vec<Hook>,
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
        Ok(Ok((server, runtime))) => {
            locks::started(&server);
            Ok(Jobs::new(server, runtime, closed, shutdown_grace))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StartError::Thread(std::io::Error::other("it ended before it had started"))),
    }
}

async fn host(plan: Plan, ready: oneshot::Sender<Ready>) -> Closed {
    let handle = runtime::Handle::current();
    let disabled = plan.jobs.disabled;
    let server = Arc::new(Server::new(Setup {
        id: server_id(plan.server_name.as_deref()),
        store: plan.chosen.store,
        clock: plan.clock,
        jobs: plan.jobs.jobs,
        states: plan.states,
        host: Place::runtime(handle.clone()),
        app: Place::runtime(plan.app),
        max_concurrent: plan.max_concurrent,
        remember: plan.remember,
    }));
    for hook in plan.hooks {
        drop(server.app.spawn(hook.listen(server.events.subscribe(server.time.now()))));
    }
    let refused = match reach(&server).await {
        Ok(()) => start_unless(diagnosis::at_start(&server).await, &server, &plan.chosen.source),
        Err(error) => Some(StartError::Store { source: plan.chosen.source.clone(), error }),
    };
    if let Some(error) = refused {
        if !plan.start_degraded {
            let _ = ready.send(Err(error)); // as above
            return Closed::ShutDown;
        }
        start_all_the_same(&server, &error);
    }
    introduce(&server, &plan.chosen.source, &disabled);
    if ready.send(Ok((server.clone(), handle))).is_err() {
        server.stop.raise(); // `start_all` was dropped while it waited
    }
    serve(&server, plan.shutdown_grace).await
}

/// Why not to start: these are what no job can run with.
fn start_unless(findings: Vec<Finding>, server: &Server, source: &str) -> Option<StartError> {
    let (store, source) = (server.store.location(), source.to_owned());
    (!findings.is_empty()).then_some(StartError::Unfit { source, store, findings })
}

fn start_all_the_same(server: &Arc<Server>, error: &StartError) {
    match error {
        StartError::Unfit { findings, .. } => diagnosis::tell(server, findings),
        StartError::Store { error, .. } => {
            tracing::error!(target: "jobs", %error, "starting without the store; no job runs until it answers");
            drop(server.host.spawn(diagnosis::once_the_store_is_back(server.clone())));
        }
        _ => {}
    }
}

/// Schedules until the server is stopped or fails, and lets its runs finish.
pub(crate) async fn serve(server: &Arc<Server>, shutdown_grace: Duration) -> Closed {
    let mut jobs: Vec<_> = server.jobs.values().cloned().collect();
    // Each server begins at another job: when many are due together, one server does not win them all.
    let random = usize::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    let first = random % jobs.len().max(1);
    jobs.rotate_left(first);
    let tasks = [
        server.host.spawn(scheduler::schedule(server.clone(), jobs)),
        server.host.spawn(watch_clock(server.clone())),
    ];
    let announcing = server.host.spawn(heartbeat::announce(server.clone()));
    tokio::select! {
        () = server.stop.raised() => {}
        () = server.failed.raised() => server.stop.raise(),
    }
    for task in tasks {
        task.abort();
    }
    finish(server, shutdown_grace).await;
    announcing.abort();
    heartbeat::leave(server).await;
    if server.failed.is_raised() { Closed::Failed } else { Closed::ShutDown }
}

async fn reach(server: &Server) -> Result<(), crate::store::StoreError> {
    let give_up = Instant::now() + REACH_FOR;
    let mut backoff = Backoff::new();
    loop {
        match server.requests(Duration::from_secs(3)).ping().await {
            Ok(_) => return Ok(()),
            // A refusal (a wrong password, say) will not go away by itself.
            Err(error) if Instant::now() >= give_up || !error.kind().is_outage() => return Err(error),
            Err(_) => tokio::time::sleep(backoff.next()).await,
        }
    }
}

/// Lets runs finish within the grace, cancels the rest, and waits until every one of them is gone: a run that
/// blocks keeps its lease for as long as it goes on.
pub(crate) async fn finish(server: &Server, grace: Duration) {
    server.ticks.close();
    tokio::select! {
        () = all_gone(server) => {}
        () = tokio::time::sleep(grace) => {}
        () = server.cancel_runs.raised() => {}
    }
    // Whoever waits for a lock is told, too.
    server.cancel_runs.raise();
    all_gone(server).await;
}

/// Waits until nothing goes on. For a moment there may be nothing between a claim that was won and what it was for.
async fn all_gone(server: &Server) {
    loop {
        server.ticks.wait().await;
        if server.ticks.is_empty() {
            return;
        }
    }
}

fn introduce(server: &Server, source: &str, disabled: &[Job]) {
    let store = server.store.location();
    tracing::info!(target: "jobs", server = &*server.id, "store {store}, from {source}");
    for job in server.jobs.values() {
        introduce_job(server, job);
    }
    for job in disabled {
        let (key, place) = (&job.policy.key, &job.place);
        tracing::info!(target: "jobs", key, place, "[{key}] is disabled on this server");
    }
}

fn introduce_job(server: &Server, job: &Job) {
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
}
