//! Which server ran which job when, and what is due in the next 24 hours.

use std::time::Duration;

use maud::{Markup, html};

use super::widgets::{badge, class, counted, job_link, span, time, words};
use super::{View, load};
use crate::Timestamp;
use crate::fleet::{LoadMap, RunTimeline, ServerLane, TimelineRun};
use crate::history::Trigger;
use crate::observe::dashboard::parameters::{Parameters, address};

const WIDTH: f64 = 1000.0;
const ROW: usize = 14;
const MOST_ROWS: usize = 8;
const MOST_LISTED: usize = 30;

/// How far back the timeline reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::observe::dashboard) enum TimelineRange {
    Minutes,
    Hour,
    Day,
    Week,
}

impl TimelineRange {
    const ALL: [Self; 4] = [Self::Minutes, Self::Hour, Self::Day, Self::Week];

    pub(in crate::observe::dashboard) fn of(parameters: &Parameters) -> Self {
        let name = parameters.get("range");
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or(Self::Hour)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Minutes => "minutes",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Minutes => "10 minutes",
            _ => self.name(),
        }
    }

    pub(in crate::observe::dashboard) fn span(self) -> Duration {
        Duration::from_secs(match self {
            Self::Minutes => 600,
            Self::Hour => 3600,
            Self::Day => 24 * 3600,
            Self::Week => 7 * 24 * 3600,
        })
    }

    /// The end of the axis is a multiple of this, so that bars do not move with every second.
    fn step(self) -> i64 {
        match self {
            Self::Minutes => 10,
            Self::Hour => 60,
            Self::Day => 600,
            Self::Week => 3600,
        }
    }

    fn labels(self) -> u32 {
        match self {
            Self::Minutes => 5,
            Self::Hour => 6,
            Self::Day => 8,
            Self::Week => 7,
        }
    }
}

/// The part of time that is drawn.
struct Axis {
    from: Timestamp,
    span: Duration,
}

impl Axis {
    fn new(range: TimelineRange, now: Timestamp) -> Self {
        let step = range.step() * 1_000_000;
        let to = Timestamp::from_micros((now.as_micros().div_euclid(step) + 1) * step);
        Self { from: to - range.span(), span: range.span() }
    }

    /// The place of an instant, from 0 to [`WIDTH`].
    fn place(&self, at: Timestamp) -> f64 {
        (at.since(self.from).as_secs_f64() / self.span.as_secs_f64() * WIDTH).min(WIDTH)
    }
}

pub(super) fn page(view: &View<'_>, load: &LoadMap) -> Markup {
    let range = TimelineRange::of(view.parameters);
    let timeline = view.overview.timeline(range.span());
    let axis = Axis::new(range, view.now());
    html! {
        div class="title" {
            h1 { "Timeline" }
            nav class="tabs" aria-label="Range" {
                @for choice in TimelineRange::ALL {
                    a href=(address("timeline", &[("range", choice.name())])) aria-current=[(choice == range).then_some("true")] {
                        "Last " (choice.label())
                    }
                }
            }
        }
        (view.live("lanes", lanes(view, &timeline, &axis, range)))
        (view.live("unusual", unusual(view, &timeline)))
        (view.live("load", load::section(view, load)))
    }
}

fn lanes(view: &View<'_>, timeline: &RunTimeline, axis: &Axis, range: TimelineRange) -> Markup {
    let runs: usize = timeline.lanes.iter().map(|lane| lane.runs.len()).sum();
    html! {
        section id="lanes" aria-label="Runs by server" {
            (legend())
            div class="lanes" {
                @for lane in &timeline.lanes { (lane_row(timeline, lane, axis)) }
                @if !timeline.gaps.is_empty() { (gaps_row(timeline, axis)) }
                div class="axis" aria-hidden="true" {
                    @for number in 0..range.labels() {
                        @let at = axis.from + axis.span * number / range.labels();
                        time datetime=(at) data-axis=(range.name()) { (axis_label(at, range)) }
                    }
                }
            }
            @if timeline.lanes.is_empty() { p class="empty" { "No server is alive, and no run is on record." } }
            p class="quiet" {
                (runs) " runs."
                @if let Some(latest) = timeline.cut_off.values().max() {
                    " Older runs are no longer on record: of " (timeline.cut_off.len()) " of " (view.overview.jobs.len()) " jobs, at worst those before " (time(*latest, view.now(), None)) "."
                }
            }
        }
    }
}

fn axis_label(at: Timestamp, range: TimelineRange) -> String {
    let text = at.to_string();
    let part = if range == TimelineRange::Week { text.get(5..10) } else { text.get(11..16) };
    part.unwrap_or_default().to_owned()
}

fn legend() -> Markup {
    html! {
        ul class="legend" aria-label="Legend" {
            @for (class, text) in [("ok", "succeeded"), ("bad", "failed"), ("warn", "cancelled or lost"), ("run", "running"), ("takeover", "takeover"), ("overlap", "overlap")] {
                li { svg viewBox="0 0 14 10" width="14" height="10" aria-hidden="true" { rect class=(class) x="1" y="1" width="12" height="8" {} } (text) }
            }
        }
    }
}

fn lane_row(timeline: &RunTimeline, lane: &ServerLane, axis: &Axis) -> Markup {
    let mut ends = Vec::<f64>::new();
    let placed: Vec<_> = lane.runs.iter().map(|run| placed(run, axis, &mut ends)).collect();
    let height = ends.len().max(1) * ROW;
    let label = format!("{} runs on {}", lane.runs.len(), lane.server);
    html! {
        div class="lane" {
            span class="name" title=(lane.server) {
                @if !lane.is_alive { span class="quiet" { "gone: " } } (lane.server)
            }
            svg viewBox=(format!("0 0 {WIDTH:.0} {height}")) height=(height) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (run, left, width, row) in &placed {
                    rect class=(run_class(timeline, lane, run)) x=(format!("{left:.1}")) y=(row * ROW + 2) width=(format!("{width:.1}")) height=(ROW - 4) {
                        title {
                            (run.key) ": " @match run.outcome { Some(outcome) => { (words(outcome.as_str())) " in " (span(run.ended.since(run.started))) }, None => "running" }
                            @if run.trigger != Trigger::Schedule { ", " (words(run.trigger.as_str())) } @if run.attempt > 1 { ", attempt " (run.attempt) }
                        }
                    }
                }
            }
        }
    }
}

/// The place of a run: left edge, width, and the first row that is free.
fn placed<'a>(run: &'a TimelineRun, axis: &Axis, ends: &mut Vec<f64>) -> (&'a TimelineRun, f64, f64, usize) {
    let left = axis.place(run.started).min(WIDTH - 2.0);
    let width = (axis.place(run.ended) - left).max(2.0);
    let free = ends.iter().position(|end| *end <= left);
    let row = free.unwrap_or(ends.len()).min(MOST_ROWS - 1);
    if row == ends.len() {
        ends.push(0.0);
    }
    ends[row] = left + width + 0.5;
    (run, left, width, row)
}

fn run_class(timeline: &RunTimeline, lane: &ServerLane, run: &TimelineRun) -> String {
    let mut name = run.outcome.map_or("run", class).to_owned();
    if run.trigger == Trigger::Takeover {
        name += " takeover";
    }
    let is_in = |overlap: &crate::fleet::RunOverlap| {
        overlap.key == run.key
            && overlap.servers.contains(&lane.server)
            && run.started < overlap.to
            && overlap.from < run.ended
    };
    if timeline.overlaps.iter().any(is_in) {
        name += " overlap";
    }
    name
}

fn gaps_row(timeline: &RunTimeline, axis: &Axis) -> Markup {
    let gaps: Vec<_> = timeline.gaps.iter().filter(|gap| gap.tick >= axis.from).collect();
    html! {
        div class="lane gaps" {
            span class="name" { "Did not run" }
            svg viewBox=(format!("0 0 {WIDTH:.0} {ROW}")) height=(ROW) preserveAspectRatio="none" role="img" aria-label=(format!("{} ticks that did not run", gaps.len())) {
                @for gap in &gaps {
                    rect class=(if gap.reason.is_some() { "gap" } else { "bad" }) x=(format!("{:.1}", axis.place(gap.tick).min(WIDTH - 3.0))) y="1" width="3" height=(ROW - 2) {
                        title { (gap.key) ": " (gap.reason.map_or("overdue", |reason| reason.as_str())) }
                    }
                }
            }
        }
    }
}

/// Takeovers, overlaps and gaps as text.
fn unusual(view: &View<'_>, timeline: &RunTimeline) -> Markup {
    let now = view.now();
    let takeovers = timeline.lanes.iter().flat_map(|lane| lane.runs.iter().map(move |run| (lane, run)));
    let takeovers: Vec<_> = takeovers.filter(|(_, run)| run.trigger == Trigger::Takeover).collect();
    let count = takeovers.len() + timeline.overlaps.len() + timeline.gaps.len();
    html! {
        section id="unusual" {
            (counted("Takeovers, overlaps and gaps", count))
            @if count == 0 { p class="empty" { "None." } }
            ul class="why" {
                @for overlap in &timeline.overlaps {
                    li { (time(overlap.from, now, None)) " " (badge("bad", "overlap")) " " (job_link(&overlap.key)) " ran on "
                        (overlap.servers[0]) " and " (overlap.servers[1]) " at once for " (span(overlap.to.since(overlap.from))) }
                }
                @for (lane, run) in takeovers.iter().rev().take(MOST_LISTED) {
                    li { (time(run.started, now, None)) " " (badge("warn", "takeover")) " " (lane.server) " took over " (job_link(&run.key)) ", attempt " (run.attempt) }
                }
                @for gap in timeline.gaps.iter().rev().take(MOST_LISTED) {
                    li { (time(gap.tick, now, None)) " " (badge(if gap.reason.is_some() { "idle" } else { "bad" }, gap.reason.map_or("overdue", |reason| reason.as_str())))
                        " " (job_link(&gap.key)) }
                }
            }
        }
    }
}
