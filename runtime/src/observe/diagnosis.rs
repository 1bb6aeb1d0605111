//! Diagnosis: problems of the store and of the jobs, checked at start and on request.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Policy;
use singleton_jobs_policy::timing::request_timeout;
use tokio::time::{Instant, timeout_at};

use super::event::EventKind;
use crate::diagnosis::{Finding, FindingKind, Severity};
use crate::server::Server;
use crate::server::heartbeat;
use crate::store::{StoreError, names};

/// The time limit for all checks together: they must not delay a start for long.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// A ttl of more ticks is reported. With the default ttl that is an interval of less than 1 s.
const TICKS_PER_TTL: u32 = 60;

/// One slow answer may be chance.
const MEASUREMENTS: u32 = 3;

/// All findings about this server, the worst first.
pub(crate) async fn examine(server: &Server) -> Result<Vec<Finding>, StoreError> {
    let give_up = Instant::now() + TIME_LIMIT;
    let round_trip = round_trip(server, give_up).await?;
    let mut keys: Vec<_> = server.jobs.keys().cloned().collect();
    keys.sort();
    let mut findings = match timeout_at(give_up, server.store.diagnose(&keys)).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => vec![not_checked(&error.to_string())],
        Err(_) => vec![not_checked(&format!("no answer within {TIME_LIMIT:?}"))],
    };
    findings.extend(about_ttls(server, round_trip));
    findings.extend(about_long_ttls(server).await);
    findings.extend(about_clocks(server));
    findings.sort_by_key(|finding| Reverse(finding.severity));
    Ok(findings)
}

/// Logs the findings of a start, and returns the errors, which end it.
pub(crate) async fn at_start(server: &Server) -> Vec<Finding> {
    let findings = match examine(server).await {
        Ok(findings) => findings,
        Err(error) => vec![not_checked(&error.to_string())],
    };
    let (errors, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    log(server, &others);
    errors
}

/// Logs the findings of a degraded start, as soon as the store answers.
pub(crate) fn once_the_store_is_back(server: Arc<Server>) -> impl Future<Output = ()> {
    let mut events = server.events.subscribe(server.time.now());
    async move {
        while let Some(event) = events.next().await {
            if event.kind == EventKind::StoreBack {
                let errors = at_start(&server).await;
                return log(&server, &errors);
            }
        }
    }
}

/// Logs findings.
pub(crate) fn log(server: &Server, findings: &[Finding]) {
    let store = server.store.location();
    for Finding { kind, severity, message } in findings {
        match severity {
            // The first heartbeat reports it, as an event too; but a server without jobs has no heartbeat.
            _ if *kind == FindingKind::ClockDiffers && !server.jobs.is_empty() => {}
            Severity::Note => tracing::debug!(target: "jobs", store, finding = ?kind, "{message}"),
            Severity::Warning => tracing::warn!(target: "jobs", store, finding = ?kind, "{message}"),
            Severity::Error => tracing::error!(target: "jobs", store, finding = ?kind, "{message}"),
        }
    }
}

fn not_checked(why: &str) -> Finding {
    Finding::not_checked(format!("the store could not be checked: {why}"))
}

/// The time of a request to the store over an open connection.
async fn round_trip(server: &Server, give_up: Instant) -> Result<Duration, StoreError> {
    let ttls = server.jobs.values().map(|job| job.policy.ttl);
    let shortest = ttls.map(request_timeout).min().unwrap_or(Duration::MAX);
    let mut fastest = Duration::MAX;
    for _ in 0..MEASUREMENTS {
        let sent = Instant::now();
        server.requests(TIME_LIMIT).ping().await?;
        fastest = fastest.min(sent.elapsed());
        if fastest < shortest || Instant::now() + fastest > give_up {
            break;
        }
    }
    Ok(fastest)
}

/// A request times out after a sixth of the ttl: if every one takes longer, the job never runs.
fn about_ttls(server: &Server, round_trip: Duration) -> Option<Finding> {
    let hurried = |ttl| request_timeout(ttl) <= round_trip;
    let jobs = server.jobs.iter().filter(|(_, job)| hurried(job.policy.ttl));
    let mut keys: Vec<_> = jobs.map(|(key, _)| key.clone()).collect();
    keys.sort();
    (!keys.is_empty()).then(|| {
        Finding::warning(
            FindingKind::TooSlow,
            format!(
                "the store takes {round_trip:.0?} to answer, and a request times out after a sixth of its job's ttl, at \
                 most after 5 s: {} can never run; set a ttl of more than {:.0?}, or use a store that is nearer",
                names(&keys),
                round_trip * 6
            ),
        )
    })
}

/// After a crash no server runs the job before its ttl is over. If the next tick is due by then, nothing is taken over.
async fn about_long_ttls(server: &Server) -> Vec<Finding> {
    let now = server.time.now();
    let interval = |policy: &Policy| {
        let schedule = policy.schedule.as_ref().filter(|_| policy.keep_alive)?;
        let next = schedule.next_after(now)?;
        Some(schedule.next_after(next)?.since(next))
    };
    let (mut long, mut not_taken_over) = (Vec::new(), Vec::new());
    for (number, (key, job)) in server.jobs.iter().enumerate() {
        if number % 100 == 99 {
            // Leases are extended on this thread, and schedules take a while to evaluate.
            tokio::task::yield_now().await;
        }
        let Some(interval) = interval(&job.policy) else { continue };
        if job.policy.ttl > interval.saturating_mul(TICKS_PER_TTL) {
            long.push(key.clone());
        } else if job.policy.allowed_takeovers() > 0 && job.policy.ttl >= interval {
            not_taken_over.push(key.clone());
        }
    }
    let warning = |message| Finding::warning(FindingKind::LongTtl, message);
    let long = (!long.is_empty()).then(|| {
        warning(format!(
            "the ttl of {} is longer than {TICKS_PER_TTL} ticks: after a crash of the server that runs it, no server \
             starts it before its ttl is over; set a shorter ttl, since a run in progress extends its lease",
            names(&long)
        ))
    });
    let not_taken_over = (!not_taken_over.is_empty()).then(|| {
        warning(format!(
            "the ttl of {} is not shorter than its interval: after a crash the next tick is due before the lease is over, and \
             `on_crash = \"retry\"` takes nothing over; set a shorter ttl, since a run in progress extends its lease",
            names(&not_taken_over)
        ))
    });
    long.into_iter().chain(not_taken_over).collect()
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
