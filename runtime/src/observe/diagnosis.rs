//! What could hurt: looked for once at start, and whenever somebody wants to know.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::request_timeout;
use tokio::time::{Instant, timeout_at};

use super::event::EventKind;
use crate::diagnosis::{Finding, FindingKind, Severity};
use crate::server::Server;
use crate::server::heartbeat;
use crate::store::{StoreError, names};

/// A store that has just answered is given so long for all questions: a start is not held up by them.
const PATIENCE: Duration = Duration::from_secs(2);

/// One slow answer may be chance.
const MEASUREMENTS: u32 = 3;

/// Everything that could hurt this server, the worst first.
pub(crate) async fn examine(server: &Server) -> Result<Vec<Finding>, StoreError> {
    let give_up = Instant::now() + PATIENCE;
    let round_trip = round_trip(server, give_up).await?;
    let mut keys: Vec<_> = server.jobs.keys().cloned().collect();
    keys.sort();
    let mut findings = match timeout_at(give_up, server.store.diagnose(&keys)).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => vec![not_checked(&error.to_string())],
        Err(_) => vec![not_checked(&format!("no answer within {PATIENCE:?}"))],
    };
    findings.extend(about_ttls(server, round_trip));
    findings.extend(about_clocks(server));
    findings.sort_by_key(|finding| Reverse(finding.severity));
    Ok(findings)
}

/// Says in the log what was found, and returns what a start must not go on with.
pub(crate) async fn at_start(server: &Server) -> Vec<Finding> {
    let findings = match examine(server).await {
        Ok(findings) => findings,
        Err(error) => vec![not_checked(&error.to_string())],
    };
    let (errors, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    tell(server, &others);
    errors
}

/// The same for a server that has to start without its store: as soon as that answers.
pub(crate) fn once_the_store_is_back(server: Arc<Server>) -> impl Future<Output = ()> {
    let mut events = server.events.subscribe(server.time.now());
    async move {
        while let Some(event) = events.next().await {
            if event.kind == EventKind::StoreBack {
                let errors = at_start(&server).await;
                return tell(&server, &errors);
            }
        }
    }
}

pub(crate) fn tell(server: &Server, findings: &[Finding]) {
    let store = server.store.location();
    for Finding { kind, severity, message } in findings {
        match severity {
            // The first announcement says it, as an event too; but who has no jobs announces nothing.
            _ if *kind == FindingKind::ClockDiffers && !server.jobs.is_empty() => {}
            Severity::Note => tracing::debug!(target: "jobs", store, finding = ?kind, "{message}"),
            Severity::Warning => tracing::warn!(target: "jobs", store, finding = ?kind, "{message}"),
            Severity::Error => tracing::error!(target: "jobs", store, finding = ?kind, "{message}"),
        }
    }
}

fn not_checked(why: &str) -> Finding {
    Finding::not_checked(format!("what could hurt about the store could not be checked: {why}"))
}

/// How long the store takes to answer over a connection that is open.
async fn round_trip(server: &Server, give_up: Instant) -> Result<Duration, StoreError> {
    let ttls = server.jobs.values().map(|job| job.policy.ttl);
    let shortest = ttls.map(request_timeout).min().unwrap_or(Duration::MAX);
    let mut fastest = Duration::MAX;
    for _ in 0..MEASUREMENTS {
        let sent = Instant::now();
        server.requests(PATIENCE).ping().await?;
        fastest = fastest.min(sent.elapsed());
        if fastest < shortest || Instant::now() + fastest > give_up {
            break;
        }
    }
    Ok(fastest)
}

/// A request is given up after a sixth of the ttl: if every one takes longer, the job never runs.
fn about_ttls(server: &Server, round_trip: Duration) -> Option<Finding> {
    let hurried = |ttl| request_timeout(ttl) <= round_trip;
    let jobs = server.jobs.iter().filter(|(_, job)| hurried(job.policy.ttl));
    let mut keys: Vec<_> = jobs.map(|(key, _)| key.clone()).collect();
    keys.sort();
    (!keys.is_empty()).then(|| {
        Finding::warning(
            FindingKind::TooSlow,
            format!(
                "the store takes {round_trip:.0?} to answer, and a request is given up after a sixth of its job's ttl, at \
                 the latest after 5 s: so {} can never run; set a ttl of more than {:.0?}, or a store that is nearer",
                names(&keys),
                round_trip * 6
            ),
        )
    })
}

fn about_clocks(server: &Server) -> Option<Finding> {
    let ahead_micros = heartbeat::clock_differs(server)?;
    let by = Duration::from_micros(ahead_micros.unsigned_abs());
    let direction = if ahead_micros > 0 { "ahead of" } else { "behind" };
    Some(Finding::warning(
        FindingKind::ClockDiffers,
        format!(
            "this machine's clock is {by:.1?} {direction} the store's: ticks follow the store's, so jobs start at other \
             times than this machine's clock shows; synchronise both"
        ),
    ))
}
