//! The history of a job: its durations, its winners, and its runs.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::View;
use super::job::bar_class;
use super::widgets::{badge, counted, outcome_badge, span, time, words, zone};
use crate::fleet::JobOverview;
use crate::history::{History, RunRecord, SkipRecord};
use crate::observe::dashboard::parameters::{Parameters, address};

const PLOT_WIDTH: usize = 800;
const PLOT_HEIGHT: f64 = 120.0;

/// Bars whose heights are durations, the newest run on the right.
pub(super) fn durations(view: &View<'_>, job: &JobOverview, history: &History) -> Markup {
    let runs: Vec<_> = history.runs.iter().rev().collect();
    let longest = runs.iter().map(|run| run.duration()).max().unwrap_or_default();
    let width = PLOT_WIDTH / runs.len().max(20);
    let height = |run: &RunRecord| {
        let share = run.duration().as_secs_f64() / longest.as_secs_f64().max(1e-6);
        (share * (PLOT_HEIGHT - 2.0) + 2.0).min(PLOT_HEIGHT)
    };
    let label = format!("Durations of the newest {} runs; the longest took {}", runs.len(), span(longest));
    html! {
        section id="durations" {
            h2 { "Durations" }
            @if runs.is_empty() { p class="empty" { "No run is on record." } }
            @else {
                figure {
                    svg class="plot" viewBox=(format!("0 0 {PLOT_WIDTH} {PLOT_HEIGHT:.0}")) role="img" aria-label=(label) preserveAspectRatio="none" {
                        line class="grid" x1="0" x2=(PLOT_WIDTH) y1="1" y2="1" {}
                        line class="grid" x1="0" x2=(PLOT_WIDTH) y1="60" y2="60" {}
                        @for (number, run) in runs.iter().enumerate() {
                            @let height = height(run);
                            rect class=(bar_class(run)) x=(PLOT_WIDTH - (runs.len() - number) * width) y=(format!("{:.1}", PLOT_HEIGHT - height)) width=(width.saturating_sub(2).max(1)) height=(format!("{height:.1}")) {
                                title { (words(run.outcome.as_str())) " in " (span(run.duration())) " on " (run.server) }
                            }
                        }
                    }
                    figcaption class="quiet" {
                        span { "Top: " (span(longest)) }
                        @if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
                            span { (time(first.started, view.now(), zone(job))) " to " (time(last.started, view.now(), zone(job))) }
                        }
                    }
                }
            }
        }
    }
}

/// How many runs each server won.
pub(super) fn winners(history: &History) -> Markup {
    let mut winners = BTreeMap::<&str, usize>::new();
    for run in &history.runs {
        *winners.entry(&run.server).or_default() += 1;
    }
    let mut winners: Vec<_> = winners.into_iter().collect();
    winners.sort_by_key(|(server, count)| (std::cmp::Reverse(*count), *server));
    let most = winners.first().map_or(1, |(_, count)| *count);
    html! {
        section id="winners" {
            h2 { "Runs per server" }
            @if winners.is_empty() { p class="empty" { "No run is on record." } }
            ul class="winners" {
                @for (server, count) in &winners {
                    li {
                        span class="name" { (server) }
                        svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                            rect class="run" x="0" y="0" width=(count * 100 / most) height="8" {}
                        }
                        span class="count" { (count) }
                    }
                }
            }
        }
    }
}

/// The filters are outside of the live parts, so that a choice is not replaced while it is made.
pub(super) fn filters(view: &View<'_>, job: &JobOverview, history: &History) -> Markup {
    let choose = |name: &'static str, label: &str, values: Vec<&str>| {
        let chosen = view.parameters.get(name);
        html! {
            label { (label) " "
                select name=(name) {
                    option value="" { "all" }
                    @for value in values { option value=(value) selected[value == chosen] { (words(value)) } }
                }
            }
        }
    };
    let distinct = |of: fn(&RunRecord) -> &str| {
        let mut values: Vec<_> = history.runs.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    html! {
        form class="history-filters" method="get" action="job" data-search aria-label="Filter the history" {
            input type="hidden" name="key" value=(job.key);
            (choose("outcome", "Outcome", distinct(|run| run.outcome.as_str())))
            (choose("trigger", "Trigger", distinct(|run| run.trigger.as_str())))
            (choose("server", "Server", distinct(|run| &run.server)))
            noscript { button type="submit" { "Filter" } }
            a class="quiet" href=(address("job", &[("key", &job.key)])) { "No filter" }
        }
    }
}

fn is_chosen(parameters: &Parameters, run: &RunRecord) -> bool {
    let fits = |name: &str, value: &str| parameters.get(name).is_empty() || parameters.get(name) == value;
    fits("outcome", run.outcome.as_str())
        && fits("trigger", run.trigger.as_str())
        && fits("server", &run.server)
}

pub(super) fn table(view: &View<'_>, job: &JobOverview, history: &History) -> Markup {
    let runs: Vec<_> = history.runs.iter().filter(|run| is_chosen(view.parameters, run)).collect();
    html! {
        section id="history" {
            (counted("History", runs.len()))
            @if runs.is_empty() { p class="empty" { "No run matches." } }
            @else {
                div class="scroll" role="region" aria-label="Runs" tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { "Started" } th scope="col" { "After tick" } th scope="col" { "Outcome" } th scope="col" { "Duration" }
                            th scope="col" { "Server" } th scope="col" { "Trigger" } th scope="col" { "Details" }
                        } }
                        tbody { @for run in runs { (run_row(view, job, run)) } }
                    }
                }
            }
            @if !history.skips.is_empty() { (skips(view, job, &history.skips)) }
        }
    }
}

fn run_row(view: &View<'_>, job: &JobOverview, run: &RunRecord) -> Markup {
    html! {
        tr {
            td data-label="Started" { (time(run.started, view.now(), zone(job))) }
            td data-label="After tick" class="number" { @match run.tick { Some(tick) => (span(run.started.since(tick))), None => "–" } }
            td data-label="Outcome" { (outcome_badge(run.outcome)) }
            td data-label="Duration" class="number" { (span(run.duration())) }
            td data-label="Server" { (run.server) @if let Some(version) = &run.app_version { " " span class="quiet" { (version) } } }
            td data-label="Trigger" {
                (words(run.trigger.as_str()))
                @if run.attempt > 1 { ", attempt " (run.attempt) }
                @if let Some(by) = &run.by { " by " (by) }
            }
            td data-label="Details" { (details(run)) }
        }
    }
}

fn details(run: &RunRecord) -> Markup {
    html! {
        @if let Some(by) = &run.stopped_by { p { "Stopped by " (by) } }
        @if let Some(error) = &run.error { p { code class="error" { (error) } } }
        @for failed in &run.failed_tries { p class="quiet" { "Try " (failed.number) ": " code class="error" { (failed.error) } } }
        @if let Some(progress) = run.progress.as_ref().filter(|progress| !progress.status.is_empty()) {
            p class="quiet" { (progress.status) }
        }
        @if let Some(log) = run.log.as_ref().filter(|log| !log.is_empty()) {
            details id=(format!("log-{}", run.fence)) { summary { "Log" } pre { (log) } }
        }
    }
}

fn skips(view: &View<'_>, job: &JobOverview, skips: &[SkipRecord]) -> Markup {
    html! {
        details id="skips" {
            summary { (skips.len()) " skipped or missed ticks" }
            ul class="why" {
                @for skip in skips {
                    li {
                        (time(skip.tick, view.now(), zone(job))) " " (badge("warn", skip.reason.as_str()))
                        span class="quiet" { " decided by " (skip.server) }
                    }
                }
            }
        }
    }
}
