//! Small elements that several pages share: times, badges, bars.

use std::time::Duration;

use maud::{Markup, html};
use singleton_jobs_policy::jiff;

use crate::Timestamp;
use crate::fleet::{JobAlert, JobOverview, Pause};
use crate::history::{Progress, RunOutcome, RunRecord};
use crate::observe::dashboard::parameters::address;
use crate::observe::fleet::reason;
pub(super) use crate::observe::fleet::sentence::span;

/// `21:03:12 UTC`, with the date if it is not today's.
pub(super) fn utc(at: Timestamp, now: Timestamp) -> String {
    let parts =
        |at: Timestamp| jiff::Timestamp::try_from(at).ok().map(|at| at.to_zoned(jiff::tz::TimeZone::UTC));
    let (Some(shown), Some(today)) = (parts(at), parts(now)) else { return at.to_string() };
    let format = if shown.date() == today.date() { "%H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S UTC" };
    shown.strftime(format).to_string()
}

/// An instant. The script shows it in the zone that the viewer chose.
pub(super) fn time(at: Timestamp, now: Timestamp, zone: Option<&str>) -> Markup {
    html! { time datetime=(at) data-zone=[zone] { (utc(at, now)) } }
}

/// An instant in a sentence about another one: without the zone, and with a date only if the other one has another.
pub(super) fn time_near(at: Timestamp, other: Timestamp, zone: Option<&str>) -> Markup {
    let text = reason::time_near(at, other, &jiff::tz::TimeZone::UTC);
    html! { time datetime=(at) data-near=(other) data-zone=[zone] { (text) } }
}

/// The title of a shape: an instant, and a text about it.
pub(super) fn moment(at: Timestamp, now: Timestamp, rest: &str) -> Markup {
    html! { title data-at=(at) data-rest=(rest) { (utc(at, now)) (rest) } }
}

/// The label of an hour in a drawing.
pub(super) fn hour(at: Timestamp, x: usize, y: usize) -> Markup {
    let text = at.to_string();
    html! { text class="hour" x=(x) y=(y) data-at=(at) data-hour { (text.get(11..13).unwrap_or_default()) } }
}

/// The time until an instant, or since it. The script counts the seconds.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> Markup {
    let coarse = |duration: Duration| match duration.as_secs() {
        0..60 => "under a minute".to_owned(),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    };
    let text = if at > now {
        format!("in {}", coarse(at.since(now)))
    } else {
        format!("{} ago", coarse(now.since(at)))
    };
    html! { time class="relative" datetime=(at) { (text) } }
}

/// The zone of the job's schedule.
pub(super) fn zone(job: &JobOverview) -> Option<&str> {
    let local = job.next_local.as_deref()?;
    local.split_once('[')?.1.strip_suffix(']')
}

pub(super) fn job_link(key: &str) -> Markup {
    html! { a href=(address("job", &[("key", key)])) { (key) } }
}

pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

pub(super) fn class(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded | RunOutcome::Committed => "ok",
        RunOutcome::Failed | RunOutcome::TimedOut | RunOutcome::Panicked | RunOutcome::Crashed => "bad",
        RunOutcome::Cancelled | RunOutcome::LeaseLost | RunOutcome::Broken => "warn",
        RunOutcome::NotStarted => "idle",
    }
}

pub(super) fn badge(class: &str, text: &str) -> Markup {
    html! { span class=(format!("badge {class}")) { (text) } }
}

pub(super) fn outcome_badge(outcome: RunOutcome) -> Markup {
    badge(class(outcome), &words(outcome.as_str()))
}

pub(super) fn alert_class(alert: JobAlert) -> &'static str {
    match alert {
        JobAlert::Overdue | JobAlert::Failing | JobAlert::NoServer | JobAlert::Overrunning => "bad",
        JobAlert::LeaseLost | JobAlert::ServersDiffer | JobAlert::Paused => "warn",
    }
}

/// The problems of a job, and otherwise what it does.
pub(super) fn state_badges(job: &JobOverview) -> Markup {
    let alerts = job.alerts();
    html! {
        @for alert in &alerts { (badge(alert_class(*alert), &words(alert.as_str()))) }
        @if job.current.is_some() { (badge("run", "running")) }
        @else if alerts.is_empty() {
            @if job.schedule.is_none() { (badge("idle", "manual only")) }
            @else if job.runs.is_empty() { (badge("idle", "no run yet")) }
            @else { (badge("ok", "ok")) }
        }
    }
}

/// Who paused the job, why, and until when.
pub(super) fn pause_line(pause: &Pause, now: Timestamp, zone: Option<&str>) -> Markup {
    html! {
        "Paused by " b { (pause.by) } " since " (time(pause.since, now, zone))
        @if let Some(until) = pause.until { ", until " (time(until, now, zone)) }
        @if pause.all { ", with all jobs" }
        @if let Some(reason) = &pause.reason { ": “" (reason) "”" }
    }
}

pub(super) fn progress_bar(progress: &Progress) -> Markup {
    let label = format!("{} of {}", progress.done, progress.total);
    html! {
        @if progress.total > 0 {
            progress max=(progress.total) value=(progress.done.min(progress.total)) aria-label="Progress" { (label) }
            span class="quiet" { (label) }
        } @else if progress.done > 0 {
            span class="quiet" { (progress.done) " done" }
        }
        @if !progress.status.is_empty() { span class="status" { (progress.status) } }
    }
}

/// The newest runs as bars, the newest on the right. Their heights are durations.
pub(super) fn strip(runs: &[RunRecord], is_running: bool) -> Markup {
    const BARS: usize = 20;
    const HEIGHT: f64 = 28.0;
    let shown: Vec<_> = runs.iter().take(BARS).collect();
    let longest = shown.iter().map(|run| run.duration().as_secs_f64()).fold(0.001, f64::max);
    let good = shown.iter().filter(|run| run.outcome == RunOutcome::Succeeded).count();
    let label = format!("Last {} runs: {good} succeeded, {} did not", shown.len(), shown.len() - good);
    let left = BARS - shown.len();
    let place = |number: usize| (left + number) * 8;
    html! {
        svg class="strip" viewBox="0 0 168 28" width="168" height="28" role="img" aria-label=(label) {
            @for empty in 0..left { rect class="none" x=(empty * 8) y="24" width="6" height="4" {} }
            @for (number, run) in shown.iter().rev().enumerate() {
                @let height = (run.duration().as_secs_f64() / longest).sqrt() * (HEIGHT - 4.0) + 4.0;
                @if class(run.outcome) != "ok" {
                    rect class=(format!("{} behind", class(run.outcome))) x=(place(number)) y="0" width="6" height="28" {}
                }
                rect class=(class(run.outcome)) x=(place(number)) y=(format!("{:.0}", HEIGHT - height)) width="6" height=(format!("{height:.0}")) {
                    title { (words(run.outcome.as_str())) " in " (span(run.duration())) }
                }
            }
            @if is_running { rect class="run" x="160" y="0" width="6" height="28" { title { "running" } } }
        }
    }
}

/// A heading with the number of entries.
pub(super) fn counted(title: &str, count: usize) -> Markup {
    html! { h2 { (title) " " span class="count" { (count) } } }
}
