//! Heartbeat: announces this server to the fleet, and receives requests for manual runs.

use std::sync::Arc;
use std::time::Duration;

use super::manual_run;
use super::{FailOnPanic, Server};
use crate::Timestamp;
use crate::fleet::JobInfo;
use crate::observe::event::EventKind;

/// Three times a minute, of which two may get lost: a dead server disappears within a minute.
const EVERY: Duration = Duration::from_secs(20);
const COUNTS_FOR: Duration = Duration::from_secs(45);

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A shutdown does not wait for a store that hangs.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A clock that differs by more microseconds is reported.
const NOTABLE: i64 = 1_000_000;

/// Announces this server until it has ended: a shutdown may wait long for a run.
pub(crate) async fn announce(server: Arc<Server>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    if server.jobs.is_empty() {
        return; // a tool that comes and goes
    }
    let jobs = server.jobs.values().map(|job| &job.policy);
    let jobs = jobs.map(|policy| JobInfo { key: policy.key.clone(), hash: policy.fingerprint() });
    // Serialised once: ten thousand jobs are a long text, and it does not change.
    let jobs = serde_json::json!(jobs.collect::<Vec<_>>()).to_string();
    let mut differs = false;
    loop {
        let about = about(&server, &jobs).into();
        let requested = server.requests(ANSWER_WITHIN).announce(&server.id, about, COUNTS_FOR).await;
        // A failure is noted in the server's health; the next announcement comes anyway.
        if let Ok(requested) = requested {
            for request in requested.into_iter().take_while(|_| !server.no_new_runs.is_raised()) {
                manual_run::take_up(&server, request);
            }
            report_clock(&server, &mut differs);
            #[cfg(feature = "metrics")]
            server.metrics.clock_ahead(clock_ahead(&server));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Removes this server's announcement: others need not wait until it expires.
pub(crate) async fn leave(server: &Server) {
    if server.jobs.is_empty() {
        return;
    }
    let _expires_by_itself = server.requests(LEAVE_WITHIN).leave(&server.id).await;
}

fn about(server: &Server, jobs: &str) -> String {
    let now = server.time.now();
    let started = now - server.begun.elapsed();
    let running = serde_json::json!(server.running.infos());
    let (id, version) = (serde_json::json!(server.id), env!("CARGO_PKG_VERSION"));
    let (started, announced, ahead) = (started.as_micros(), now.as_micros(), clock_ahead(server));
    format!(
        "{{\"id\":{id},\"started\":{started},\"announced\":{announced},\"version\":\"{version}\",\"jobs\":{jobs},\
         \"clock_ahead_micros\":{ahead},\"running\":{running}}}"
    )
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
