//! `jobsctl servers`, `locks` and `audit`.

use jobs::Jobs;
use jobs::fleet::{Action, HeldLock};
use serde_json::json;

use crate::args::Options;
use crate::failure::{Answer, Failure};
use crate::output::{BAD, Cell, FAINT, PLAIN, Table, print_json};
use crate::time::{absolute, relative, span};

/// A clock that differs by more seconds is shown as bad.
pub(crate) const CLOCK_LIMIT: f64 = 1.0;

pub(crate) async fn servers(options: &Options, jobs: &Jobs) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    if options.json {
        let document = overview.to_json();
        let (servers, lost) = (&document["servers"], &document["lost_servers"]);
        print_json(&json!({ "format": 1, "at": document["at"], "servers": servers, "lost_servers": lost }));
        return Ok(Answer::Good);
    }
    let headings = ["SERVER", "STARTED", "HEARTBEAT", "VERSION", "CLOCK", "JOBS", "RUNNING", "LABELS"];
    let mut table = Table::new(headings);
    for server in overview.servers.iter().chain(&overview.lost_servers) {
        let ahead = server.clock_ahead_seconds();
        let is_lost = overview.lost_servers.contains(server);
        // The heartbeat is up to 20 s old; the records of the jobs are not.
        let runs = overview
            .jobs
            .iter()
            .filter(|job| job.current.as_ref().is_some_and(|run| run.server == server.id));
        let running: Vec<_> = runs.map(|job| job.key.as_str()).collect();
        let labels: Vec<_> = server.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        table.add([
            server.id.clone().into(),
            relative(server.started, overview.at).into(),
            heartbeat(is_lost, relative(server.announced, overview.at)),
            server.app_version.clone().unwrap_or_default().into(),
            Cell::new(format!("{ahead:+.3}s"), if ahead.abs() > CLOCK_LIMIT { BAD } else { PLAIN }),
            server.jobs.len().to_string().into(),
            running.join(", ").into(),
            Cell::new(labels.join(" "), FAINT),
        ]);
    }
    table.print("no server is alive; a server is listed while it has jobs and sends its heartbeat");
    Ok(Answer::Good)
}

fn heartbeat(is_lost: bool, ago: String) -> Cell {
    if is_lost { Cell::new(format!("LOST, {ago}"), BAD) } else { ago.into() }
}

pub(crate) async fn locks(options: &Options, jobs: &Jobs) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    // Runs of jobs hold locks, too.
    let held = jobs.locks().await?;
    if options.json {
        let held: Vec<_> = held.iter().map(HeldLock::to_json).collect();
        let done = &overview.to_json()["done"];
        print_json(&json!({ "format": 1, "at": overview.at.to_string(), "locks": held, "done": done }));
        return Ok(Answer::Good);
    }
    let mut table = Table::new(["KEY", "KIND", "HOLDER", "SINCE", "EXPIRES", "FENCE"]);
    for lock in &held {
        let HeldLock { key, kind, holder, fence, .. } = lock;
        table.add([
            key.clone().into(),
            kind.map_or("foreign", |kind| kind.as_str()).into(),
            holder.server.clone().unwrap_or_else(|| "another program".to_owned()).into(),
            holder.since.map_or_else(|| "-".to_owned(), |since| relative(since, overview.at)).into(),
            holder
                .remaining
                .map_or_else(
                    || "never".to_owned(),
                    |remaining| format!("in {} unless extended", span(remaining)),
                )
                .into(),
            Cell::new(fence.map(|fence| fence.to_string()).unwrap_or_default(), FAINT),
        ]);
    }
    for done in &overview.done {
        table.add([
            done.key.clone().into(),
            "done".into(),
            "-".into(),
            relative(done.at, overview.at).into(),
            relative(done.until, overview.at).into(),
            "".into(),
        ]);
    }
    table.print("nothing is held");
    Ok(Answer::Good)
}

pub(crate) async fn audit(options: &Options, jobs: &Jobs) -> Result<Answer, Failure> {
    let actions = jobs.audit().await?;
    if options.json {
        let actions: Vec<_> = actions.iter().map(Action::to_json).collect();
        print_json(&json!({ "format": 1, "actions": actions }));
        return Ok(Answer::Good);
    }
    let mut table = Table::new(["TIME", "WHO", "ACTION", "JOB OR LOCK", "NOTE"]);
    for action in &actions {
        table.add([
            absolute(action.at, &options.tz).into(),
            action.by.to_string().into(),
            action.what.as_str().into(),
            action.key.as_deref().unwrap_or("all jobs").into(),
            Cell::new(action.note.as_deref().unwrap_or_default(), FAINT),
        ]);
    }
    table.print("no action is on record");
    Ok(Answer::Good)
}
