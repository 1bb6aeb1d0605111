//! `jobsctl doctor`: problems of the store, the servers and their clocks.

use std::time::Duration;

use jobs::diagnosis::Severity;
use jobs::fleet::{HeldLock, JobAlert, LeaseKind, Overview, ServerInfo};
use jobs::{Jobs, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::Options;
use crate::failure::{Answer, Failure};
use crate::inspect::{CLOCK_LIMIT, differences};
use crate::output::{BAD, Cell, FAINT, GOOD, NOTABLE, print_json};
use crate::time::span;

const ROUND_TRIPS: usize = 7;
/// A server sends a heartbeat every 20 s.
const LATE_HEARTBEAT: Duration = Duration::from_secs(30);
/// A lock that is held for longer is reported.
const LONG_LOCK: Duration = Duration::from_secs(120);
/// Number of servers without a heartbeat that are named.
const NAMED: usize = 3;
/// The lock that is taken and released to see whether this user may write.
const PROBE: &str = "jobs-doctor";

/// What one check found.
struct Check {
    name: &'static str,
    severity: Severity,
    text: String,
}

pub(crate) async fn doctor(options: &Options, jobs: &Jobs) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    let mut checks = vec![round_trip(jobs).await?, writes(jobs).await];
    checks.extend(findings(jobs).await?);
    checks.extend(servers(&overview));
    checks.extend(locks(&overview));
    checks.extend(known_jobs(&overview));
    // What is bad first; the sort keeps the order otherwise.
    checks.sort_by_key(|check| std::cmp::Reverse(check.severity));
    let is_good = checks.iter().all(|check| check.severity == Severity::Note);
    if options.json {
        let checks: Vec<_> = checks.iter().map(to_json).collect();
        print_json(&json!({ "format": 1, "at": overview.at.to_string(), "ok": is_good, "checks": checks }));
    } else {
        checks.iter().for_each(print);
    }
    Ok(Answer::good_if(is_good))
}

fn to_json(check: &Check) -> Value {
    json!({ "check": check.name, "severity": word(check.severity), "text": check.text })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "ok",
        Severity::Warning => "warning",
        _ => "error",
    }
}

fn print(check: &Check) {
    let style = match check.severity {
        Severity::Note => GOOD,
        Severity::Warning => NOTABLE,
        _ => BAD,
    };
    let (word, text) =
        (Cell::new(word(check.severity), style), Cell::new(check.text.as_str(), anstyle::Style::new()));
    anstream::println!("{} {FAINT}{:9}{FAINT:#} {}", word.padded(7), check.name, text.painted());
}

fn ok(name: &'static str, text: impl Into<String>) -> Check {
    Check { name, severity: Severity::Note, text: text.into() }
}

fn warning(name: &'static str, text: impl Into<String>) -> Check {
    Check { name, severity: Severity::Warning, text: text.into() }
}

async fn round_trip(jobs: &Jobs) -> Result<Check, Failure> {
    let mut times = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let sent = Instant::now();
        jobs.audit().await?;
        times.push(sent.elapsed());
    }
    times.sort();
    let median = times[ROUND_TRIPS / 2];
    Ok(ok("store", format!("answers in {median:.1?} (median of {ROUND_TRIPS} requests)")))
}

/// Whether the user of this URL may do what servers do.
async fn writes(jobs: &Jobs) -> Check {
    let taken = jobs.lock(PROBE).ttl("5s").wait("2s").run(|_| async {}).await;
    match taken {
        Ok(()) => ok("access", "this user may read, write and delete records"),
        Err(error) => Check {
            name: "access",
            severity: Severity::Error,
            text: format!(
                "a lock could not be taken and released: {error}; the guide's page on permissions lists what is needed"
            ),
        },
    }
}

async fn findings(jobs: &Jobs) -> Result<Vec<Check>, Failure> {
    let found = jobs.diagnose().await?;
    if found.is_empty() {
        return Ok(vec![ok("settings", "the settings of the store have no problem")]);
    }
    Ok(found
        .into_iter()
        .map(|finding| Check { name: "settings", severity: finding.severity, text: finding.message })
        .collect())
}

fn servers(overview: &Overview) -> Vec<Check> {
    let mut checks = Vec::new();
    for server in &overview.servers {
        let (ahead, id) = (server.clock_ahead_seconds(), &server.id);
        if ahead.abs() > CLOCK_LIMIT {
            let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
            let by = ahead.abs();
            checks.push(warning(
                "clock",
                format!("the clock of {id} is {by:.1} s {direction} the store's; ticks follow the store's; synchronise both"),
            ));
        }
    }
    let is_late = |server: &&ServerInfo| overview.at.since(server.announced) > LATE_HEARTBEAT;
    let silent: Vec<_> = overview.servers.iter().filter(is_late).chain(&overview.lost_servers).collect();
    for server in silent.iter().take(NAMED) {
        let (id, age) = (&server.id, span(overview.at.since(server.announced)));
        let text = format!(
            "{id} sent its last heartbeat {age} ago, and was not shut down: it has crashed, hangs, or is cut off from the \
             store; look at that process"
        );
        checks.push(Check { name: "servers", severity: Severity::Error, text });
    }
    if let Some(more @ 1..) = silent.len().checked_sub(NAMED) {
        let text =
            format!("{more} more servers were not shut down in the last hour; `jobsctl servers` lists them");
        checks.push(Check { name: "servers", severity: Severity::Error, text });
    }
    let mut versions: Vec<_> =
        overview.servers.iter().map(|server| server.app_version.as_deref().unwrap_or("unknown")).collect();
    versions.sort_unstable();
    versions.dedup();
    let count = overview.servers.len();
    match (count, versions.as_slice()) {
        (0, _) => checks
            .push(warning("servers", "no server is alive: no job runs; start one, or check --namespace")),
        (_, [_, _, ..]) => {
            let versions = versions.join(", ");
            checks.push(warning("servers", format!("{count} servers run different versions: {versions}; a deploy is in progress, or one has failed")));
        }
        _ => checks.push(ok("servers", format!("{count} alive"))),
    }
    checks
}

/// Locks that are held for long. A leader holds its lock for as long as it lives.
fn locks(overview: &Overview) -> Vec<Check> {
    let held_for = |since: Option<Timestamp>| since.map(|since| overview.at.since(since)).unwrap_or_default();
    let is_long =
        |lock: &&HeldLock| lock.kind != Some(LeaseKind::Leader) && held_for(lock.holder.since) > LONG_LOCK;
    let check = |lock: &HeldLock| {
        let (key, since) = (&lock.key, span(held_for(lock.holder.since)));
        let server = lock.holder.server.as_deref().unwrap_or("another program");
        let text = format!(
            "{server} has held the lock \"{key}\" for {since}; if it should not, look at that server, or `jobsctl unlock {key}`"
        );
        warning("locks", text)
    };
    overview.locks.iter().filter(is_long).map(check).collect()
}

fn known_jobs(overview: &Overview) -> Vec<Check> {
    let mut checks = Vec::new();
    for job in &overview.jobs {
        let key = &job.key;
        for alert in job.alerts() {
            let text = match alert {
                JobAlert::Overdue => format!("\"{key}\" is overdue; `jobsctl why {key}` explains it"),
                JobAlert::Failing => {
                    let error =
                        job.runs.first().and_then(|run| run.error.as_deref()).unwrap_or("no error text");
                    format!("the last run of \"{key}\" did not succeed: {error}")
                }
                JobAlert::LeaseLost => {
                    format!("the last run of \"{key}\" lost its lease; its writes need the fence")
                }
                JobAlert::NoServer => {
                    format!(
                        "no server has \"{key}\"; deploy it, or delete its records with `jobsctl forget {key}`, an hour after its last use"
                    )
                }
                JobAlert::Overrunning => {
                    let skipped = job.skipped_by_current_run();
                    format!(
                        "{skipped} ticks of \"{key}\" were skipped because of the run in progress; `jobsctl show {key}` says where it is"
                    )
                }
                JobAlert::Paused => format!("\"{key}\" is paused; `jobsctl show {key}` says by whom and why"),
                JobAlert::ServersDiffer => {
                    format!("servers differ about \"{key}\": {}", differences(&job.variants).join("; "))
                }
                _ => continue,
            };
            checks.push(warning("jobs", text));
        }
    }
    if checks.is_empty() {
        checks.push(ok("jobs", format!("{} jobs without a problem", overview.jobs.len())));
    }
    checks
}
