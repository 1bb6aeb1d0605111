//! The runs of each server and of all servers, drawn along the time.

use std::collections::BTreeMap;
use std::fmt;

use maud::{Markup, html};

use super::{Axis, TimelineRange, View, WIDTH};
use crate::fleet::{RunOverlap, RunTimeline, ServerLane, TickGap, TimelineRun};
use crate::history::Trigger;
use crate::observe::dashboard::pages::widgets::{class, moment, span, time, words};

const ROW: usize = 14;
const MOST_ROWS: usize = 8;

/// Bars of all lanes together. Lanes with more runs than their share are drawn as columns, so that a page stays small.
const MOST_BARS: usize = 1000;
const COLUMN_HEIGHT: usize = 3 * ROW;

/// A gap is this wide; those at the same place are one.
const GAP_WIDTH: u32 = 3;
const MOST_NAMED: usize = 3;

/// The kinds of runs, from the bottom of a column to its top.
const KINDS: [(&str, &str); 4] =
    [("ok", "succeeded"), ("warn", "cancelled or lost"), ("bad", "failed"), ("run", "running")];

pub(super) struct Lanes<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) timeline: &'a RunTimeline,
    pub(super) axis: Axis,
    pub(super) range: TimelineRange,
}

impl Lanes<'_> {
    pub(super) fn section(&self) -> Markup {
        let Self { view, timeline, axis, range } = self;
        html! {
            section id="lanes" aria-label="Runs by server" {
                (legend())
                div class="lanes" {
                    @if !timeline.lanes.is_empty() { (self.all_servers()) }
                    @for lane in &timeline.lanes { (self.lane(lane)) }
                    @if !timeline.gaps.is_empty() { (self.gaps()) }
                    div class="axis" aria-hidden="true" {
                        @for number in 0..range.labels() {
                            @let at = axis.from + axis.span * number / range.labels();
                            time datetime=(at) data-axis=(range.name()) { (range.label_of(at)) }
                        }
                    }
                }
                @if timeline.lanes.is_empty() { p class="empty" { "No server is alive, and no run is on record." } }
                p class="quiet" {
                    (counted(timeline.lanes.iter().flat_map(|lane| &lane.runs))) "."
                    @if let Some(latest) = timeline.cut_off.values().max() {
                        " Older runs are no longer on record: of " (timeline.cut_off.len()) " of " (view.overview.jobs.len()) " jobs, at worst those before " (time(*latest, view.now(), None)) "."
                    }
                }
            }
        }
    }

    fn all_servers(&self) -> Markup {
        let runs = self.timeline.lanes.iter().flat_map(|lane| lane.runs.iter().map(move |run| (lane, run)));
        let label = format!("Runs on all {} servers", self.timeline.lanes.len());
        html! {
            div class="lane all" {
                span class="name" { "All servers" }
                (self.columns(runs, self.range.columns(), &label))
            }
        }
    }

    fn lane(&self, lane: &ServerLane) -> Markup {
        let share = MOST_BARS / self.timeline.lanes.len();
        let label = format!("{} runs on {}", lane.runs.len(), lane.server);
        html! {
            div class="lane" {
                span class="name" title=(lane.server) {
                    @if !lane.is_alive { span class="quiet" { "gone: " } } (lane.server)
                }
                @if lane.runs.len() > share {
                    (self.columns(lane.runs.iter().map(|run| (lane, run)), share.clamp(12, self.range.columns()), &label))
                } @else { (self.bars(lane, &label)) }
            }
        }
    }

    /// A bar for each run.
    fn bars(&self, lane: &ServerLane, label: &str) -> Markup {
        let mut ends = Vec::<f64>::new();
        let placed: Vec<_> = lane.runs.iter().map(|run| placed(run, &self.axis, &mut ends)).collect();
        let height = ends.len().max(1) * ROW;
        html! {
            svg viewBox=(format!("0 0 {WIDTH:.0} {height}")) height=(height) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (run, left, width, row) in &placed {
                    rect class=(format!("{}{}", kind(run), self.marks(lane, run))) x=(format!("{left:.1}")) y=(row * ROW + 2) width=(format!("{width:.1}")) height=(ROW - 4) {
                        (moment(run.started, self.view.now(), &described(run)))
                    }
                }
            }
        }
    }

    /// A column for each step of time, with the runs in progress then.
    fn columns<'b>(
        &self,
        runs: impl Iterator<Item = (&'b ServerLane, &'b TimelineRun)>,
        count: usize,
        label: &str,
    ) -> Markup {
        let mut columns = vec![Column::default(); count];
        for (lane, run) in runs {
            let (first, last) = (self.axis.column(run.started, count), self.axis.column(run.ended, count));
            let (kind, marks) = (kind(run), self.marks(lane, run));
            columns[first..=last].iter_mut().for_each(|column| column.add(kind, marks));
        }
        let most = columns.iter().map(Column::runs).max().unwrap_or(0).max(1);
        let step = self.axis.span / u32::try_from(count).unwrap_or(u32::MAX);
        let (width, height) = (WIDTH / as_f64(count), as_f64(COLUMN_HEIGHT));
        html! {
            svg viewBox=(format!("0 0 {WIDTH:.0} {COLUMN_HEIGHT}")) height=(COLUMN_HEIGHT) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (number, column) in columns.iter().enumerate().filter(|(_, column)| column.runs() > 0) {
                    @let at = self.axis.from + step * u32::try_from(number).unwrap_or(0);
                    @let left = as_f64(number) * width;
                    g {
                        (moment(at, self.view.now(), &format!(": {column}")))
                        @for (class, below, runs) in column.stack() {
                            rect class=(class) x=(format!("{left:.1}")) width=(format!("{:.1}", width * 0.9))
                                y=(format!("{:.1}", height - (below + runs) / as_f64(most) * height)) height=(format!("{:.1}", runs / as_f64(most) * height)) {}
                        }
                        @if column.marks != Marks::default() {
                            rect class=(format!("outline{}", column.marks)) x=(format!("{left:.1}")) width=(format!("{:.1}", width * 0.9)) y="0" height=(COLUMN_HEIGHT) {}
                        }
                    }
                }
            }
        }
    }

    fn marks(&self, lane: &ServerLane, run: &TimelineRun) -> Marks {
        let is_in = |overlap: &RunOverlap| {
            overlap.key == run.key
                && overlap.servers.contains(&lane.server)
                && run.started < overlap.to
                && overlap.from < run.ended
        };
        Marks {
            takeover: run.trigger == Trigger::Takeover,
            overlap: self.timeline.overlaps.iter().any(is_in),
        }
    }

    /// The ticks that did not run.
    fn gaps(&self) -> Markup {
        let mut places = BTreeMap::<u32, Vec<&TickGap>>::new();
        for gap in self.timeline.gaps.iter().filter(|gap| gap.tick >= self.axis.from) {
            let place = u32::try_from(self.axis.column(gap.tick, 1000)).unwrap_or(0) / GAP_WIDTH * GAP_WIDTH;
            places.entry(place).or_default().push(gap);
        }
        let count: usize = places.values().map(Vec::len).sum();
        html! {
            div class="lane gaps" {
                span class="name" { "Did not run" }
                svg viewBox=(format!("0 0 {WIDTH:.0} {ROW}")) height=(ROW) preserveAspectRatio="none" role="img" aria-label=(format!("{count} ticks that did not run")) {
                    @for (place, gaps) in &places {
                        @let is_known = gaps.iter().all(|gap| gap.reason.is_some());
                        rect class=(if is_known { "gap" } else { "bad" }) x=(place) y="1" width=(GAP_WIDTH - 1) height=(ROW - 2) {
                            (moment(gaps[0].tick, self.view.now(), &gaps_described(gaps)))
                        }
                    }
                }
            }
        }
    }
}

/// The class of a run: one of the [`KINDS`].
fn kind(run: &TimelineRun) -> &'static str {
    run.outcome.map_or("run", class)
}

/// What is unusual about a run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Marks {
    takeover: bool,
    overlap: bool,
}

/// As further classes.
impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.takeover { " takeover" } else { "" })?;
        f.write_str(if self.overlap { " overlap" } else { "" })
    }
}

/// The runs in progress during a step of time.
#[derive(Clone, Default)]
struct Column {
    /// Of each of the [`KINDS`].
    counts: [usize; KINDS.len()],
    marks: Marks,
}

impl Column {
    fn add(&mut self, kind: &str, marks: Marks) {
        if let Some(place) = KINDS.iter().position(|(known, _)| *known == kind) {
            self.counts[place] += 1;
        }
        self.marks.takeover |= marks.takeover;
        self.marks.overlap |= marks.overlap;
    }

    fn runs(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Of each kind that there is: its class, the runs below it, and its runs.
    fn stack(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let mut below = 0;
        KINDS.iter().zip(self.counts).filter(|(_, count)| *count > 0).map(move |((class, _), count)| {
            below += count;
            (*class, as_f64(below - count), as_f64(count))
        })
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.runs();
        write!(f, "{runs} run{}", if runs == 1 { "" } else { "s" })?;
        let kinds = KINDS.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        for (number, ((_, name), count)) in kinds.enumerate() {
            write!(f, "{} {count} {name}", if number == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

fn counted<'a>(runs: impl Iterator<Item = &'a TimelineRun>) -> Column {
    let mut column = Column::default();
    runs.for_each(|run| column.add(kind(run), Marks::default()));
    column
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn described(run: &TimelineRun) -> String {
    let end = match run.outcome {
        Some(outcome) => format!("{} in {}", words(outcome.as_str()), span(run.ended.since(run.started))),
        None => "running".to_owned(),
    };
    let trigger = match run.trigger {
        Trigger::Schedule => String::new(),
        other => format!(", {}", words(other.as_str())),
    };
    let attempt = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
    format!(" {}: {end}{trigger}{attempt}", run.key)
}

fn gaps_described(gaps: &[&TickGap]) -> String {
    let named = gaps.iter().take(MOST_NAMED).map(|gap| format!(" {}: {}", gap.key, reason_of(gap)));
    let named = named.collect::<Vec<_>>().join(",");
    match gaps.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

pub(super) fn reason_of(gap: &TickGap) -> &'static str {
    gap.reason.map_or("overdue", |reason| reason.as_str())
}

fn legend() -> Markup {
    let others = [("takeover", "takeover"), ("overlap", "overlap")];
    html! {
        ul class="legend" aria-label="Legend" {
            @for (class, text) in KINDS.into_iter().chain(others) {
                li { svg viewBox="0 0 14 10" width="14" height="10" aria-hidden="true" { rect class=(class) x="1" y="1" width="12" height="8" {} } (text) }
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
