//! `jobsctl list`: all jobs, those with problems first.

use std::cmp::Reverse;

use jobs::Jobs;
use jobs::fleet::{JobAlert, JobOverview, Overview};
use jobs::history::{CurrentRun, RunOutcome};
use serde_json::{Value, json};

use crate::args::{List, Options, Sort};
use crate::failure::{Answer, Failure};
use crate::output::{ACTIVE, BAD, Cell, FAINT, GOOD, NOTABLE, Table, print_json};
use crate::time::{relative, span};

pub(crate) async fn list(options: &Options, jobs: &Jobs, list: &List) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    let found = selected(&overview, list);
    let answer = Answer::good_if(!list.problems || found.is_empty());
    if options.json {
        let found: Vec<_> = found.into_iter().map(in_short).collect();
        print_json(&json!({ "format": 1, "at": overview.at.to_string(), "jobs": found }));
        return Ok(answer);
    }
    if let Some(pause) = &overview.pause {
        let reason = pause.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("ALL JOBS ARE PAUSED by {}{reason}", pause.by);
        anstream::println!("{}", Cell::new(text, NOTABLE).painted());
    }
    let mut table = Table::new(["JOB", "STATE", "NEXT", "LAST RUN", "MEAN", "SERVER", "SCHEDULE"]);
    for job in found {
        table.add(row(job, &overview));
    }
    table.print(match &list.filter {
        _ if list.problems => "no job has a problem",
        Some(_) => "no job's key contains the text of --filter",
        None => "no jobs found; check --url and --namespace",
    });
    Ok(answer)
}

/// The job with its newest run only; `jobsctl history` has them all.
fn in_short(job: &JobOverview) -> Value {
    let mut short = job.to_json();
    if let Some(fields) = short.as_object_mut() {
        let last = fields.get("runs").and_then(|runs| runs.get(0)).cloned();
        fields.insert("last_run".to_owned(), last.unwrap_or_default());
        fields.remove("runs");
        fields.remove("skips");
    }
    short
}

fn selected<'a>(overview: &'a Overview, list: &List) -> Vec<&'a JobOverview> {
    let matches = |job: &&JobOverview| {
        list.filter.as_deref().is_none_or(|text| job.key.contains(text))
            && (!list.problems || !job.alerts().is_empty())
    };
    let mut found: Vec<_> = overview.jobs.iter().filter(matches).collect();
    match list.sort {
        Sort::Key => {}
        // `None` would come first.
        Sort::Problems => found.sort_by_key(|job| (job.alerts().is_empty(), job.alerts().into_iter().next())),
        Sort::Next => found.sort_by_key(|job| (job.next.is_none(), job.next)),
        Sort::Last => found.sort_by_key(|job| Reverse(last_start(job))),
        Sort::Duration => found.sort_by_key(|job| Reverse(job.stats.mean())),
    }
    found
}

fn last_start(job: &JobOverview) -> Option<jobs::Timestamp> {
    let current = job.current.as_ref().map(|run| run.started);
    current.or_else(|| job.runs.first().map(|run| run.started))
}

fn row(job: &JobOverview, overview: &Overview) -> [Cell; 7] {
    let last = job.runs.first();
    let last_run = last.map_or_else(
        || Cell::new("never", FAINT),
        |run| {
            Cell::new(
                format!("{} {}", run.outcome, relative(run.started, overview.at)),
                style_of(run.outcome),
            )
        },
    );
    let server = job.current.as_ref().map(|run| run.server.clone());
    let server = server.or_else(|| last.map(|run| run.server.clone())).unwrap_or_default();
    [
        job.key.clone().into(),
        state(job, overview),
        next(job, overview).into(),
        last_run,
        job.stats.mean().map_or_else(|| "-".to_owned(), span).into(),
        Cell::new(server, FAINT),
        Cell::new(job.schedule_in_words.clone().unwrap_or_else(|| "only manual runs".to_owned()), FAINT),
    ]
}

fn next(job: &JobOverview, overview: &Overview) -> String {
    match (job.next, &job.pause) {
        (Some(next), _) => relative(next, overview.at),
        (None, Some(_)) => "paused".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The state in one word or a few, the worst first.
pub(crate) fn state(job: &JobOverview, overview: &Overview) -> Cell {
    let worst = job.alerts().into_iter().next();
    match (worst, &job.current) {
        (Some(JobAlert::NoServer), _) => Cell::new("NO SERVER", BAD),
        (Some(JobAlert::Overdue), _) => {
            let since = job.overdue.map(|tick| relative(tick, overview.at)).unwrap_or_default();
            Cell::new(format!("OVERDUE {since}"), BAD)
        }
        (_, Some(run)) => {
            let (text, skipped) = (running(run, overview), job.skipped_by_current_run());
            if job.alerts().contains(&JobAlert::Overrunning) {
                Cell::new(format!("{text}, {skipped} TICKS SKIPPED"), BAD)
            } else {
                Cell::new(text, ACTIVE)
            }
        }
        (Some(JobAlert::Failing), _) => {
            let in_row = job.stats.failures_in_row;
            Cell::new(if in_row > 1 { format!("FAILING {in_row}×") } else { "FAILED".to_owned() }, BAD)
        }
        (Some(JobAlert::LeaseLost), _) => Cell::new("LEASE LOST", BAD),
        (Some(JobAlert::ServersDiffer), _) => Cell::new("SERVERS DIFFER", NOTABLE),
        (Some(JobAlert::Paused), _) => {
            let by = job.pause.as_ref().map(|pause| pause.by.to_string()).unwrap_or_default();
            Cell::new(format!("PAUSED by {by}"), NOTABLE)
        }
        _ => Cell::new("ok", GOOD),
    }
}

fn running(run: &CurrentRun, overview: &Overview) -> String {
    let since = span(overview.at.since(run.started));
    match run.progress.as_ref().filter(|progress| progress.total > 0) {
        Some(progress) => format!("running {}% {since}", progress.done.saturating_mul(100) / progress.total),
        None => format!("running {since}"),
    }
}

pub(crate) fn style_of(outcome: RunOutcome) -> anstyle::Style {
    match outcome {
        RunOutcome::Succeeded | RunOutcome::Committed => GOOD,
        RunOutcome::Cancelled | RunOutcome::NotStarted => NOTABLE,
        _ => BAD,
    }
}
