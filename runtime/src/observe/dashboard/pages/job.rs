//! One job: what it does now, what it did, and what can be done.

use maud::{Markup, html};

use super::View;
use super::audit::action_table;
use super::history;
use super::widgets::{
    badge, class, counted, outcome_badge, pause_line, progress_bar, relative, span, state_badges, time,
    time_near, words, zone,
};
use crate::fleet::{ActionKind, JobOverview, TickFate, TickReport, Ticks};
use crate::history::CurrentRun;
use crate::observe::dashboard::api::EXPLAINED_TICKS;
use crate::observe::fleet::reason::ReasonPart;

pub(super) fn page(view: &View<'_>, job: &JobOverview, ticks: &Ticks) -> Markup {
    html! {
        nav class="crumbs" aria-label="Path" { a href="overview" { "Jobs" } " / " span { (job.key) } }
        div class="title" {
            div class="name" {
                h1 { (job.key) }
                (view.live("badges", html! { div id="badges" class="badges" { (state_badges(job)) } }))
            }
            (view.live("actions", actions(view, job)))
        }
        @if !job.description.is_empty() { p class="description" { (job.description) } }
        (view.live("state", state(view, job)))
        (view.live("facts", facts(view, job)))
        div class="side" {
            (view.live("durations", history::durations(view, job, ticks.history())))
            (view.live("winners", history::winners(ticks.history())))
        }
        (view.live("why", why(view, job, ticks)))
        (history::filters(view, job, ticks.history()))
        (view.live("history", history::table(view, job, ticks.history())))
        (view.live("policy", policy(job)))
        (view.live("audit", audit(view, job)))
    }
}

/// Live, because what can be done depends on what the job does.
fn actions(view: &View<'_>, job: &JobOverview) -> Markup {
    let key = &job.key;
    html! {
        div id="actions" class="actions" {
            (view.button(ActionKind::Run, key, "Run now"))
            @if job.current.is_some() {
                (view.button(ActionKind::Cancel, key, "Cancel"))
                (view.button(ActionKind::Unlock, key, "Unlock"))
            }
            @if job.pause.is_some() { (view.button(ActionKind::Resume, key, "Resume")) }
            (view.button(ActionKind::Pause, key, if job.pause.is_some() { "Change pause" } else { "Pause" }))
        }
    }
}

fn state(view: &View<'_>, job: &JobOverview) -> Markup {
    let (now, zone) = (view.now(), zone(job));
    html! {
        div id="state" {
            @if let Some(pause) = &job.pause { p class="banner warn" { (pause_line(pause, now, zone)) } }
            @if let Some(overdue) = job.overdue { p class="banner bad" { "The tick of " (time(overdue, now, zone)) " was not started." } }
            @if job.servers.is_empty() { p class="banner bad" { "No server has this job." } }
            @if let Some(lock) = &job.foreign_lock {
                p class="banner warn" {
                    "Another program holds the lock"
                    @if let Some(remaining) = lock.holder.remaining { ", for another " (span(remaining)) } "."
                }
            }
            @if let Some(run) = &job.current { (current(view, run, zone)) }
        }
    }
}

fn current(view: &View<'_>, run: &CurrentRun, zone: Option<&str>) -> Markup {
    let now = view.now();
    html! {
        div class="banner run" {
            p {
                "Running on " b { (run.server) } " since " (time(run.started, now, zone)) ", " (relative(run.started, now))
                @if run.attempt > 1 { ", attempt " (run.attempt) }
                @if let Some(by) = &run.by { ", requested by " b { (by) } }
                @if let Some(by) = &run.cancelled_by { ". " b { (by) } " has asked to cancel it" }
                "."
            }
            @if let Some(progress) = &run.progress { p class="progress" { (progress_bar(progress)) } }
            p class="quiet" { "Fence " (run.fence) ", lease until " (time(run.until, now, zone)) }
        }
    }
}

fn facts(view: &View<'_>, job: &JobOverview) -> Markup {
    let (now, zone) = (view.now(), zone(job));
    html! {
        dl id="facts" class="facts" {
            div { dt { "Schedule" } dd {
                @match &job.schedule_in_words { Some(words) => (words), None => "manual runs only" }
                @if let Some(schedule) = &job.schedule && job.schedule_in_words.as_ref() != Some(schedule) { " " code { (schedule) } }
            } }
            div { dt { "Next run" } dd {
                @match job.next { Some(next) => { (relative(next, now)) br; span class="quiet" { (time(next, now, zone)) } }, None => "none" }
            } }
            div { dt { "Runs" } dd {
                (job.stats.runs) br; span class="quiet" {
                    (job.stats.failures) " failed"
                    @if job.stats.failures_in_row > 1 { ", the last " (job.stats.failures_in_row) " in a row" }
                }
            } }
            div { dt { "Mean duration" } dd {
                @match job.stats.mean() { Some(mean) => (span(mean)), None => "–" }
                @if let Some(longest) = job.stats.longest() { br; span class="quiet" { "longest " (span(longest)) } }
            } }
            div { dt { "Last success" } dd {
                @match job.stats.last_success { Some(at) => { (relative(at, now)) br; span class="quiet" { (time(at, now, zone)) } }, None => "never" }
            } }
            div { dt { "Servers" } dd { span title=(job.servers.join(", ")) { (job.servers.len()) " of " (view.overview.servers.len()) } } }
        }
    }
}

/// The newest ticks, with the reasons of `jobsctl why`.
fn why(view: &View<'_>, job: &JobOverview, ticks: &Ticks) -> Markup {
    let reports = ticks.newest(EXPLAINED_TICKS);
    html! {
        section id="why" {
            h2 { "Why ticks ran or not" }
            @if reports.is_empty() { p class="empty" { "No tick is on record." } }
            @else {
                p class="quiet" { "The newest " (reports.len()) " ticks." }
                ul class="why" {
                    @for report in &reports {
                        li {
                            (time(report.tick, view.now(), zone(job))) " "
                            (fate_badge(report.fate)) " "
                            span { (sentence(report, zone(job))) }
                        }
                    }
                }
            }
        }
    }
}

/// The reason, with instants that the script shows in the zone that the viewer chose.
fn sentence(report: &TickReport, zone: Option<&str>) -> Markup {
    html! {
        @for part in report.sentence.parts() {
            @match part {
                ReasonPart::Text(text) => (text),
                ReasonPart::Instant(at) => (time_near(*at, report.tick, zone)),
            }
        }
    }
}

fn fate_badge(fate: TickFate) -> Markup {
    match fate {
        TickFate::Ran(outcome) => outcome_badge(outcome),
        TickFate::Running => badge("run", "running"),
        TickFate::Overdue | TickFate::Missed => badge("bad", &words(fate.as_str())),
        TickFate::Skipped => badge("warn", "skipped"),
        _ => badge("idle", &words(fate.as_str())),
    }
}

fn policy(job: &JobOverview) -> Markup {
    html! {
        section id="policy" {
            h2 { "Policy" }
            @if let Some(place) = &job.place { p { "Defined at " code { (place) } } }
            dl class="settings-list" {
                @for (name, value) in &job.arguments { div { dt { (name) } dd { code { (value) } } } }
            }
            @if job.variants.len() > 1 {
                p class="banner warn" { "Servers have different versions of this job." }
                ul {
                    @for variant in &job.variants {
                        li {
                            (variant.servers.join(", ")) ": "
                            @match &variant.job {
                                Some(job) => {
                                    code { (job.schedule.as_deref().unwrap_or("manual runs only")) }
                                    @for (name, value) in &job.arguments { " " code { (name) " = " (value) } }
                                },
                                None => "unknown settings",
                            }
                        }
                    }
                }
            }
        }
    }
}

fn audit(view: &View<'_>, job: &JobOverview) -> Markup {
    let of_job = |key: &Option<std::sync::Arc<str>>| key.as_deref().is_none_or(|key| key == job.key);
    let actions: Vec<_> =
        view.overview.actions.iter().filter(|action| of_job(&action.key)).take(20).collect();
    html! {
        section id="audit" {
            (counted("Actions of operators", actions.len()))
            (action_table(view, &actions))
        }
    }
}

/// The class of a bar for a run.
pub(super) fn bar_class(run: &crate::history::RunRecord) -> &'static str {
    class(run.outcome)
}
