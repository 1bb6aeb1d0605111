//! Heartbeat: announces this server to the fleet, and receives requests for manual runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::operate::manual_run;
use super::orders::Orders;
use super::{FailOnPanic, Server};
use crate::Timestamp;
use crate::fleet::{JobInfo, Manifest};
use crate::observe::event::EventKind;
use crate::store::{Note, Pause, PauseOrder, StoreError};
use crate::util::backoff::Backoff;

/// Three times a minute, of which one may get lost: a dead server is not listed as alive after 45 s. One that fails is repeated sooner.
const EVERY: Duration = Duration::from_secs(20);
/// A server that ended without a shutdown is listed as lost for an hour.
const COUNTS_FOR: Duration = Duration::from_secs(3600);

/// Of a job that no server has any more, the description is known for a day.
const MANIFEST_EVERY: Duration = Duration::from_secs(3600);
const MANIFEST_COUNTS_FOR: Duration = Duration::from_secs(24 * 3600);

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The first tick does not wait for a store that hangs.
const JOIN_WITHIN: Duration = Duration::from_secs(3);

/// A shutdown does not wait for a store that hangs.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A clock that differs by more microseconds is reported.
const NOTABLE: i64 = 1_000_000;

/// Announces this server, and pauses its new jobs if all jobs are paused: once, before its first tick is claimed. Without the store
/// no tick can be claimed; then each claim tries it first.
///
/// The operator who pauses all jobs writes the pause first and lists the servers then. So the pause reaches every new job, from
/// here or from there.
pub(crate) async fn join(server: &Server) -> Result<(), StoreError> {
    let mut has_joined = server.has_joined.lock().await;
    if *has_joined || server.jobs.is_empty() {
        return Ok(());
    }
    let joined = pause_new_jobs(server).await;
    server.must_join.store(joined.as_ref().is_err_and(is_retryable), Ordering::SeqCst);
    match joined {
        Err(error) if is_retryable(&error) => return Err(error),
        Err(error) => tracing::warn!(
            target: "jobs", %error,
            "failed to read whether all jobs are paused; new jobs start as if they were not"
        ),
        Ok(()) => {}
    }
    *has_joined = true;
    Ok(())
}

fn is_retryable(error: &StoreError) -> bool {
    error.kind().is_retryable()
}

async fn pause_new_jobs(server: &Server) -> Result<(), StoreError> {
    let requests = server.requests(JOIN_WITHIN);
    requests.announce(&server.id, Announcement::of(server).text(server).into(), COUNTS_FOR).await?;
    let is_active = |pause: &Pause| pause.is_active(server.time.now());
    let mut pause = requests.fleet_state().await?.pause.filter(is_active);
    if pause.is_none() {
        return Ok(());
    }
    let registered = requests.registered_jobs().await?;
    let new: Vec<_> = server.jobs.keys().filter(|key| !registered.contains(*key)).collect();
    let mut first_error = None;
    loop {
        for key in &new {
            let changed = match &pause {
                Some(pause) => {
                    requests.pause(key, &order_of(pause, server), server.history_limit).await.map(drop)
                }
                None => requests.resume(key, &server.id, true, server.history_limit).await.map(drop),
            };
            // One that cannot be read does not keep the others from being paused.
            first_error = first_error.or(changed.err());
        }
        // All may have been resumed meanwhile, by an operator who did not find the new jobs yet.
        let now = requests.fleet_state().await?.pause.filter(is_active);
        if now == pause {
            return first_error.map_or(Ok(()), Err);
        }
        pause = now;
    }
}

fn order_of(pause: &Pause, server: &Server) -> PauseOrder {
    let lasts = pause.until.map(|until| until.since(server.time.now()));
    PauseOrder { by: pause.by.clone(), reason: pause.reason.clone(), lasts, all: true }
}

/// Announces this server until it has ended: a shutdown may wait long for a run.
pub(crate) async fn announce(server: Arc<Server>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    if server.jobs.is_empty() {
        return; // a tool that comes and goes
    }
    let announcement = Announcement::of(&server);
    let (mut differs, mut orders) = (false, Orders::default());
    let mut manifest_is_due = Instant::now();
    // Up to the usual interval.
    let mut backoff = Backoff::doubling(9);
    loop {
        let mut next = Instant::now() + EVERY;
        let text = announcement.text(&server).into();
        let requested = server.requests(ANSWER_WITHIN).announce(&server.id, text, COUNTS_FOR).await;
        // A failure is noted in the server's health.
        if let Ok(requested) = requested {
            backoff.reset();
            manual_run::take_up_all(&server, requested);
            report_clock(&server, &mut differs);
            #[cfg(feature = "metrics")]
            server.metrics.clock_ahead(clock_ahead(&server));
            if manifest_is_due <= Instant::now() && announcement.put_manifest(&server).await.is_ok() {
                manifest_is_due = Instant::now() + MANIFEST_EVERY;
            }
        } else {
            next = next.min(Instant::now() + backoff.next());
        }
        orders.follow_until(&server, next).await;
    }
}

/// Removes this server's announcement: others need not wait until it expires.
pub(crate) async fn leave(server: &Server) {
    if server.jobs.is_empty() {
        return;
    }
    let _expires_by_itself = server.requests(LEAVE_WITHIN).leave(&server.id).await;
}

/// What a server announces. The parts that do not change are serialised once: ten thousand jobs are a long text.
struct Announcement {
    jobs: String,
    /// The manifest of the program. Servers of one version write the same note.
    manifest: Note,
}

impl Announcement {
    fn of(server: &Server) -> Self {
        let jobs = server.jobs.values().map(|job| &job.policy);
        let jobs = jobs.map(|policy| JobInfo { key: policy.key.clone(), hash: policy.fingerprint() });
        let jobs = serde_json::json!(jobs.collect::<Vec<_>>()).to_string();
        let manifest = Manifest::new(server.app_version.as_deref(), server.jobs.values().map(|job| &**job));
        let text = serde_json::json!(manifest).to_string();
        let name = Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string();
        Self { jobs, manifest: Note { name, text: text.into() } }
    }

    /// The [`ServerInfo`](crate::fleet::ServerInfo) of this moment.
    fn text(&self, server: &Server) -> String {
        let now = server.time.now();
        let started = now - server.begun.elapsed();
        let running = serde_json::json!(server.running.infos());
        let (id, version) = (serde_json::json!(server.id), env!("CARGO_PKG_VERSION"));
        let (app_version, labels) = (serde_json::json!(server.app_version), serde_json::json!(server.labels));
        let (started, announced, ahead) = (started.as_micros(), now.as_micros(), clock_ahead(server));
        let Self { jobs, manifest } = self;
        let manifest = &manifest.name;
        format!(
            "{{\"id\":{id},\"started\":{started},\"announced\":{announced},\"version\":\"{version}\",\"jobs\":{jobs},\
             \"manifest\":\"{manifest}\",\"app_version\":{app_version},\"labels\":{labels},\
             \"clock_ahead_micros\":{ahead},\"running\":{running}}}"
        )
    }

    async fn put_manifest(&self, server: &Server) -> Result<(), StoreError> {
        server.requests(ANSWER_WITHIN).put_manifest(&self.manifest, MANIFEST_COUNTS_FOR).await
    }
}

fn clock_ahead(server: &Server) -> i64 {
    let wall: Timestamp = server.time.wall().now();
    wall.as_micros().saturating_sub(server.time.now().as_micros())
}

/// How far this machine's clock is ahead of the store's, in microseconds, if that is worth a report.
pub(crate) fn clock_differs(server: &Server) -> Option<i64> {
    Some(clock_ahead(server)).filter(|ahead| ahead.abs() > NOTABLE)
}

fn report_clock(server: &Server, differs: &mut bool) {
    let ahead = clock_differs(server);
    if let (Some(ahead_micros), false) = (ahead, *differs) {
        server.emit(None, EventKind::ClockDiffers { ahead_micros });
    }
    *differs = ahead.is_some();
}
