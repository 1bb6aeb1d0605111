//! `jobsctl show`, `history` and `why`: one job.

use jobs::Jobs;
use jobs::fleet::{JobOverview, JobVariant, TickFate, TickReport};
use jobs::history::{RunOutcome, RunRecord, Skip, SkipRecord};
use serde_json::json;

use super::list::{state, style_of};
use crate::args::{History, Options, Why};
use crate::failure::{Answer, Failure};
use crate::output::{ACTIVE, BAD, Cell, FAINT, NOTABLE, PLAIN, Table, print_field, print_json};
use crate::time::{Nearest, absolute, parse, relative, span};

/// Number of ticks that `show` explains.
const SHOWN: usize = 5;

pub(crate) async fn show(options: &Options, jobs: &Jobs, key: &str) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    let Some(job) = overview.jobs.iter().find(|job| job.key == key) else {
        return Err(jobs::OperateError::NoSuchJob { key: key.to_owned() }.into());
    };
    let ticks = jobs.ticks(key).await?.in_zone(options.tz.clone());
    let newest = ticks.newest(SHOWN);
    if options.json {
        let ticks: Vec<_> = newest.iter().map(TickReport::to_json).collect();
        print_json(
            &json!({ "format": 1, "at": overview.at.to_string(), "job": job.to_json(), "ticks": ticks }),
        );
        return Ok(Answer::Good);
    }
    let at = |instant| format!("{} ({})", absolute(instant, &options.tz), relative(instant, overview.at));
    print_field("job", key);
    if !job.description.is_empty() {
        print_field("description", &job.description);
    }
    if let Some(place) = &job.place {
        print_field("source", place);
    }
    print_field("state", state(job, &overview));
    print_schedule(job, at);
    print_run(job, at);
    print_pause(job, at);
    print_stats(job);
    let arguments = job.arguments.iter().map(|(name, value)| format!("{name} = {value}"));
    print_field("settings", arguments.collect::<Vec<_>>().join(", "));
    match job.servers.len() {
        0 => print_field("servers", Cell::new("none has this job", BAD)),
        _ => print_field("servers", job.servers.join(", ")),
    }
    for line in differences(&job.variants) {
        print_field("differs", Cell::new(line, NOTABLE));
    }
    if !newest.is_empty() {
        anstream::println!("\nnewest ticks, times in {}:", zone_name(options));
        print_ticks(options, &newest);
    }
    Ok(Answer::Good)
}

fn print_schedule(job: &JobOverview, at: impl Fn(jobs::Timestamp) -> String) {
    match (&job.schedule, &job.schedule_in_words) {
        (Some(schedule), Some(words)) => print_field("schedule", format!("{schedule}: {words}")),
        _ => print_field("schedule", "none: only manual runs"),
    }
    if let Some(next) = job.next {
        let local = job.next_local.as_ref().map(|local| format!(", {local}")).unwrap_or_default();
        print_field("next", format!("{}{local}", at(next)));
    }
    if let Some(tick) = job.overdue {
        print_field("overdue", Cell::new(at(tick), BAD));
    }
}

fn print_run(job: &JobOverview, at: impl Fn(jobs::Timestamp) -> String) {
    if let Some(run) = &job.current {
        let by = run.by.as_ref().map(|by| format!(", requested by {by}")).unwrap_or_default();
        print_field("running", Cell::new(format!("on {} since {}{by}", run.server, at(run.started)), ACTIVE));
        if let Some(progress) = &run.progress {
            let total = if progress.total > 0 { format!(" of {}", progress.total) } else { String::new() };
            print_field("progress", format!("{}{total} {}", progress.done, progress.status));
        }
    }
    if let Some(lock) = &job.foreign_lock {
        let remaining = lock.holder.remaining.map_or_else(|| "without an expiry".to_owned(), span);
        print_field("locked", Cell::new(format!("another program holds the lock: {remaining}"), NOTABLE));
    }
    if let Some(run) = job.runs.first() {
        let text =
            format!("{} on {}, {}, took {}", run.outcome, run.server, at(run.started), span(run.duration()));
        print_field("last run", Cell::new(text, style_of(run.outcome)));
        if let Some(error) = &run.error {
            print_field("error", Cell::new(error, BAD));
        }
    }
}

fn print_pause(job: &JobOverview, at: impl Fn(jobs::Timestamp) -> String) {
    let Some(pause) = &job.pause else { return };
    let until =
        pause.until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {}", at(until)));
    let reason = pause.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let text = format!("by {} since {}, {until}{reason}", pause.by, at(pause.since));
    print_field("paused", Cell::new(text, NOTABLE));
}

fn print_stats(job: &JobOverview) {
    let stats = &job.stats;
    let mean = stats.mean().map(|mean| format!(", mean {}", span(mean))).unwrap_or_default();
    let longest = stats.longest().map(|longest| format!(", longest {}", span(longest))).unwrap_or_default();
    print_field(
        "runs",
        format!("{}, {} succeeded, {} failed{mean}{longest}", stats.runs, stats.successes, stats.failures),
    );
}

/// What differs between servers: `ttl = 60s on web-1, 30s on web-2`.
pub(crate) fn differences(variants: &[JobVariant]) -> Vec<String> {
    if variants.len() < 2 {
        return Vec::new();
    }
    let described: Vec<_> =
        variants.iter().filter_map(|variant| Some((variant, variant.job.as_ref()?))).collect();
    let names = described.iter().flat_map(|(_, job)| job.arguments.keys().map(String::as_str));
    let names: std::collections::BTreeSet<_> = names.chain(["schedule"]).collect();
    let mut lines = Vec::new();
    for name in names {
        let values = described.iter().map(|(variant, job)| {
            let value = if name == "schedule" { job.schedule.as_ref() } else { job.arguments.get(name) };
            (value.map_or("not set", String::as_str), variant.servers.join(", "))
        });
        let values: Vec<_> = values.collect();
        if values.iter().any(|(value, _)| *value != values[0].0) {
            let values: Vec<_> =
                values.iter().map(|(value, servers)| format!("{value} on {servers}")).collect();
            lines.push(format!("{name} = {}", values.join("; ")));
        }
    }
    if lines.is_empty() {
        let servers: Vec<_> = variants.iter().map(|variant| variant.servers.join(", ")).collect();
        lines.push(format!("settings differ between {}", servers.join(" and ")));
    }
    lines
}

pub(crate) async fn history(options: &Options, jobs: &Jobs, wanted: &History) -> Result<Answer, Failure> {
    let history = jobs.history(&wanted.key).await?;
    let is_wanted =
        |run: &&RunRecord| wanted.outcome.as_deref().is_none_or(|outcome| run.outcome.as_str() == outcome);
    let runs: Vec<_> = history.runs.iter().filter(is_wanted).take(wanted.number).collect();
    if options.json {
        let runs: Vec<_> = runs.into_iter().map(RunRecord::to_json).collect();
        let skips: Vec<_> = history.skips.iter().take(wanted.number).map(SkipRecord::to_json).collect();
        print_json(&json!({ "format": 1, "key": wanted.key, "runs": runs, "skips": skips }));
        return Ok(Answer::Good);
    }
    let mut table =
        Table::new(["STARTED", "TOOK", "OUTCOME", "TRIGGER", "ATTEMPT", "SERVER", "VERSION", "ERROR"]);
    let mut rows: Vec<_> = runs.iter().map(|run| (run.started, run_row(options, run))).collect();
    if wanted.outcome.is_none() {
        rows.extend(history.skips.iter().map(|skip| (skip.at, skip_row(options, skip))));
    }
    rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    rows.truncate(wanted.number);
    for (_, row) in rows {
        table.add(row);
    }
    table.print("no such run is on record");
    if let Some(oldest) = history.runs.last() {
        let (count, since) = (history.runs.len(), absolute(oldest.started, &options.tz));
        anstream::println!("{FAINT}{count} runs are on record, the oldest of {since}{FAINT:#}");
    }
    if wanted.log {
        for run in &runs {
            print_details(options, run);
        }
    }
    Ok(Answer::Good)
}

fn run_row(options: &Options, run: &RunRecord) -> [Cell; 8] {
    let by = run.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let stopped = run.stopped_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    [
        absolute(run.started, &options.tz).into(),
        span(run.duration()).into(),
        Cell::new(format!("{}{stopped}", run.outcome), style_of(run.outcome)),
        format!("{}{by}", run.trigger).into(),
        run.attempt.to_string().into(),
        run.server.clone().into(),
        run.app_version.clone().unwrap_or_default().into(),
        Cell::new(run.error.clone().unwrap_or_default(), BAD),
    ]
}

fn skip_row(options: &Options, skip: &SkipRecord) -> [Cell; 8] {
    let why = match skip.reason {
        Skip::Missed => "missed".to_owned(),
        reason => format!("skipped: {}", reason.as_str()),
    };
    [
        absolute(skip.tick, &options.tz).into(),
        "-".into(),
        Cell::new(why, NOTABLE),
        "schedule".into(),
        "-".into(),
        Cell::new(skip.server.as_str(), FAINT),
        "".into(),
        "".into(),
    ]
}

fn print_details(options: &Options, run: &RunRecord) {
    anstream::println!("\n{} on {}", absolute(run.started, &options.tz), run.server);
    for failed in &run.failed_tries {
        anstream::println!("  try {} failed: {}", failed.number, Cell::new(&failed.error, BAD).painted());
    }
    for line in run.log.as_deref().unwrap_or("no log is kept: see `LogTail` in the guide").lines() {
        anstream::println!("  {}", Cell::new(line, FAINT).painted());
    }
}

pub(crate) async fn why(options: &Options, jobs: &Jobs, wanted: &Why) -> Result<Answer, Failure> {
    let ticks = jobs.ticks(&wanted.key).await?.in_zone(options.tz.clone());
    let reports = match &wanted.time {
        Some(time) => {
            vec![ticks.at(parse(time, &options.tz, ticks.now(), Nearest::Past).map_err(Failure::Usage)?)]
        }
        None => ticks.next().into_iter().chain(ticks.newest(wanted.number)).collect(),
    };
    if options.json {
        let reports: Vec<_> = reports.iter().map(TickReport::to_json).collect();
        print_json(
            &json!({ "format": 1, "key": wanted.key, "at": ticks.now().to_string(), "ticks": reports }),
        );
        return Ok(Answer::Good);
    }
    if reports.is_empty() {
        anstream::println!("\"{}\" has no schedule, and no tick of it is on record", wanted.key);
    }
    print_ticks(options, &reports);
    Ok(Answer::Good)
}

/// Ticks in a row with the same reason are one line, and a count.
fn print_ticks(options: &Options, reports: &[TickReport]) {
    for same in reports.chunk_by(|one, other| one.reason == other.reason) {
        print_tick(options, &same[0]);
        if let [_, .., last] = same {
            let (more, until) = (same.len() - 1, absolute(last.tick, &options.tz));
            anstream::println!("{FAINT}  and so {more} more, back to {until}{FAINT:#}");
        }
    }
}

fn print_tick(options: &Options, report: &TickReport) {
    let style = match report.fate {
        TickFate::Ran(RunOutcome::Succeeded) | TickFate::Upcoming | TickFate::Due => PLAIN,
        TickFate::Running => ACTIVE,
        TickFate::Skipped | TickFate::NotOnRecord | TickFate::NotScheduled => NOTABLE,
        _ => BAD,
    };
    let reason = Cell::new(&report.reason, style);
    anstream::println!("{} {}", absolute(report.tick, &options.tz), reason.painted());
}

fn zone_name(options: &Options) -> &str {
    options.tz.iana_name().unwrap_or("the local zone")
}
