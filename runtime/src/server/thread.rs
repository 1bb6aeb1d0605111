//! The scheduler's own thread: a job that blocks the application's runtime does not lose its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::StartError;
use super::handle::{Closed, Jobs};
use super::heartbeat;
use super::{Server, ServerConfig};
use crate::Timestamp;
use crate::diagnosis::Finding;
use crate::job::Job;
use crate::locks;
use crate::observe::diagnosis;
use crate::observe::hook::EventHook;
use crate::schedule::Schedule;
use crate::tick::clock_watch::watch_clock;
use crate::tick::scheduler;
use crate::util::backoff::Backoff;
use crate::util::spawner::Spawner;

/// A server's configuration, and what only its start needs.
pub(crate) struct Startup {
    pub(crate) config: ServerConfig,
    /// Where the store's URL came from: a variable's name, or the builder's method.
    pub(crate) store_source: String,
    pub(crate) disabled: Vec<Job>,
    pub(crate) allow_degraded: bool,
    pub(crate) hooks: Vec<EventHook>,
    pub(crate) stop_token: Option<CancellationToken>,
}

/// How long a start tries to reach the store.
const REACH_FOR: Duration = Duration::from_secs(10);

/// How long cancelled runs may take to end before they are reported as blocked.
pub(crate) const CANCELLED_WITHIN: Duration = Duration::from_secs(2);

/// The runtime of the scheduler's thread. It can be dropped in async code, when the thread cannot be started.
pub(crate) struct SchedulerRuntime {
    runtime: Option<Runtime>,
    handle: runtime::Handle,
}

impl SchedulerRuntime {
    pub(crate) fn new() -> Result<Self, StartError> {
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let handle = runtime.handle().clone();
        Ok(Self { runtime: Some(runtime), handle })
    }

    pub(crate) fn spawner(&self) -> Spawner {
        Spawner::Runtime(self.handle.clone())
    }

    fn run(mut self, scheduler: impl Future<Output = Closed>) -> Closed {
        let Some(runtime) = &mut self.runtime else { return Closed::Failed };
        runtime.block_on(scheduler)
    }
}

impl Drop for SchedulerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A blocked file operation must not keep the thread.
            runtime.shutdown_background();
        }
    }
}

/// Starts the thread, and returns when it schedules or has failed to start.
pub(crate) async fn start(runtime: SchedulerRuntime, startup: Startup) -> Result<Jobs, StartError> {
    let (ready, started) = oneshot::channel();
    let (closing, closed) = watch::channel(None);
    let handle = runtime.handle.clone();
    let thread = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
        let jobs = |server| Jobs::new(server, handle, closed);
        let reason = runtime.run(host(startup, ready, jobs));
        closing.send_replace(Some(reason));
    });
    thread.map_err(StartError::Thread)?;
    let ended = |_| Err(StartError::Thread(std::io::Error::other("it ended before it had started")));
    started.await.unwrap_or_else(ended)
}

type Ready = oneshot::Sender<Result<Jobs, StartError>>;

async fn host(startup: Startup, ready: Ready, jobs: impl FnOnce(Arc<Server>) -> Jobs) -> Closed {
    let Startup { config, store_source, disabled, allow_degraded, hooks, stop_token } = startup;
    let server = Arc::new(Server::new(config));
    for hook in hooks {
        drop(server.app.spawn(hook.listen(server.events.subscribe(server.time.now()))));
    }
    let refused = match reach_store(&server).await {
        Ok(()) => refusal(diagnosis::at_start(&server).await, &server, &store_source),
        Err(error) => Some(StartError::Store { source: store_source.clone(), error }),
    };
    if let Some(error) = refused {
        if !allow_degraded {
            let _caller_is_gone = ready.send(Err(error));
            return Closed::ShutDown;
        }
        start_degraded(&server, &error);
    }
    log_start(&server, &store_source, &disabled);
    locks::add_started(&server);
    // If the future of `start_all` was dropped, the handle is dropped here or with the channel, which stops the server.
    drop(ready.send(Ok(jobs(server.clone()))));
    if let Some(token) = stop_token {
        let server = server.clone();
        drop(server.host.clone().spawn(async move {
            token.cancelled_owned().await;
            server.shut_down();
        }));
    }
    serve(&server).await
}

/// The error of a start whose store no job can run on.
fn refusal(findings: Vec<Finding>, server: &Server, source: &str) -> Option<StartError> {
    let (store, source) = (server.store.location(), source.to_owned());
    (!findings.is_empty()).then_some(StartError::Unfit { source, store, findings })
}

/// Logs why no job can run yet, and the findings about the store when it answers.
fn start_degraded(server: &Arc<Server>, error: &StartError) {
    match error {
        StartError::Unfit { findings, .. } => diagnosis::log(server, findings),
        StartError::Store { error, .. } => {
            tracing::error!(target: "jobs", %error, "starting without the store; no job runs until it answers");
            drop(server.host.spawn(diagnosis::once_the_store_is_back(server.clone())));
        }
        _ => {}
    }
}

/// Schedules until the server is stopped or fails, then lets its runs finish.
pub(crate) async fn serve(server: &Arc<Server>) -> Closed {
    let jobs = server.jobs.values().cloned().collect();
    // Claims try it again.
    let _is_in_its_health = heartbeat::join(server).await;
    let scheduling = server.host.spawn(scheduler::schedule(server.clone(), jobs));
    let watching = server.host.spawn(watch_clock(server.clone()));
    let announcing = server.host.spawn(heartbeat::announce(server.clone()));
    tokio::select! {
        biased;
        () = server.failed.raised() => server.shut_down(),
        () = server.no_new_runs.raised() => {}
    }
    scheduling.abort();
    #[cfg(feature = "metrics")]
    crate::observe::metrics::no_further_ticks(server);
    tokio::select! {
        biased;
        () = server.failed.raised() => server.shut_down(),
        () = server.shutting_down.raised() => {}
    }
    watching.abort();
    finish(server, server.shutdown_grace).await;
    announcing.abort();
    heartbeat::leave(server).await;
    if server.failed.is_raised() { Closed::Failed } else { Closed::ShutDown }
}

async fn reach_store(server: &Server) -> Result<(), crate::store::StoreError> {
    let give_up = Instant::now() + REACH_FOR;
    let mut backoff = Backoff::new();
    loop {
        match server.requests(Duration::from_secs(3)).ping().await {
            Ok(_) => return Ok(()),
            // A refusal, such as a wrong password, lasts until an operator acts.
            Err(error) if Instant::now() >= give_up || !error.kind().is_outage() => return Err(error),
            Err(_) => tokio::time::sleep(backoff.next()).await,
        }
    }
}

/// Lets runs finish within the grace, cancels the rest, and waits until all of them have ended: a run that blocks keeps its
/// lease until then.
pub(crate) async fn finish(server: &Server, grace: Duration) {
    server.tracked.close();
    let keys = in_progress(server);
    if !keys.is_empty() && !server.cancel_runs.is_raised() {
        tracing::info!(target: "jobs", keys, ?grace, "shutting down; waiting up to {grace:?} for {keys}");
    }
    tokio::select! {
        biased;
        () = all_ended(server) => {}
        () = tokio::time::sleep(grace) => {}
        () = server.cancel_runs.raised() => {}
    }
    // This also ends the waits for locks.
    server.cancel_runs.raise();
    if tokio::time::timeout(CANCELLED_WITHIN, all_ended(server)).await.is_err() {
        warn_of_blocked_runs(server);
        all_ended(server).await;
    }
}

fn warn_of_blocked_runs(server: &Server) {
    let keys = in_progress(server);
    if keys.is_empty() {
        tracing::warn!(target: "jobs", "shut down, but the store did not answer in time; leases expire by themselves");
    } else {
        tracing::warn!(
            target: "jobs", keys,
            "shut down, but these runs block and cannot be cancelled: {keys}; their leases are kept until they end, and \
             expire when the process ends"
        );
    }
}

/// The keys of what a shutdown waits for.
fn in_progress(server: &Server) -> String {
    [server.running.keys(), server.held.keys()].concat().join(", ")
}

/// Waits until no task is left. There may be none for a moment, between a claim that was won and its run.
async fn all_ended(server: &Server) {
    loop {
        server.tracked.wait().await;
        if server.tracked.is_empty() {
            return;
        }
    }
}

fn log_start(server: &Server, source: &str, disabled: &[Job]) {
    let store = server.store.location();
    tracing::info!(target: "jobs", server = &*server.id, "store {store}, from {source}");
    for job in server.jobs.values() {
        log_job(server, job);
    }
    for job in disabled {
        let (key, place) = (&job.policy.key, &job.place);
        tracing::info!(target: "jobs", key, place, "[{key}] is disabled on this server");
    }
}

fn log_job(server: &Server, job: &Job) {
    let (key, place) = (&job.policy.key, &job.place);
    let about = (!job.description.is_empty()).then_some(&job.description);
    match &job.policy.schedule {
        None => {
            tracing::info!(target: "jobs", key, place, about, "[{key}] has no schedule; only manual runs");
        }
        Some(schedule) => {
            let next = next_tick(schedule, server.time.now());
            tracing::info!(target: "jobs", key, place, about, "[{key}] {schedule}, {next}");
        }
    }
}

/// `next at 2026-07-01T01:00:00Z (2026-07-01T03:00:00+02:00[Europe/Berlin])`
fn next_tick(schedule: &Schedule, now: Timestamp) -> String {
    let Some(next) = schedule.next_after(now) else { return "no further tick".to_owned() };
    match schedule.local_time(next) {
        Some(local) => format!("next at {next} ({local})"),
        None => format!("next at {next}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_tick_is_shown_in_utc_and_in_the_zone_of_the_job() {
        let shown = |every, zone| {
            let schedule = Schedule::parse(every, zone).unwrap();
            next_tick(&schedule, Timestamp::from_micros(1_782_820_800_000_000)) // 30 June 2026, noon
        };
        let berlin = shown("0 3 * * *", Some("Europe/Berlin"));
        assert_eq!(berlin, "next at 2026-07-01T01:00:00Z (2026-07-01T03:00:00+02:00[Europe/Berlin])");
        assert_eq!(shown("0 3 * * *", None), "next at 2026-07-01T03:00:00Z");
        assert_eq!(shown("1h", None), "next at 2026-06-30T13:00:00Z");
    }
}
