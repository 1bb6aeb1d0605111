//! Which server ran which job when, and what is due in the next 24 hours.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};

use super::View;
use super::widgets::{badge, counted, job_link, span, time};
use crate::Timestamp;
use crate::fleet::{LoadMap, RunTimeline, TickGap};
use crate::history::Trigger;
use crate::observe::dashboard::parameters::{Parameters, address};
use lanes::{Lanes, reason_of};

mod lanes;
mod load;

const WIDTH: f64 = 1000.0;
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

    /// Each is a round time: 10 seconds, a minute, 20 minutes, 2 hours.
    fn columns(self) -> usize {
        match self {
            Self::Minutes | Self::Hour => 60,
            Self::Day => 72,
            Self::Week => 84,
        }
    }

    fn label_of(self, at: Timestamp) -> String {
        let text = at.to_string();
        let part = if self == Self::Week { text.get(5..10) } else { text.get(11..16) };
        part.unwrap_or_default().to_owned()
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

    /// Which of so many columns an instant lies in.
    fn column(&self, at: Timestamp, count: usize) -> usize {
        let micros = at.since(self.from).as_micros() * count as u128 / self.span.as_micros().max(1);
        usize::try_from(micros).unwrap_or(count).min(count - 1)
    }

    /// The place of an instant, from 0 to [`WIDTH`].
    fn place(&self, at: Timestamp) -> f64 {
        (at.since(self.from).as_secs_f64() / self.span.as_secs_f64() * WIDTH).min(WIDTH)
    }
}

pub(super) fn page(view: &View<'_>, timeline: &RunTimeline, load: &LoadMap) -> Markup {
    let range = TimelineRange::of(view.parameters);
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
        (view.live("lanes", Lanes { view, timeline, axis, range }.section()))
        (view.live("unusual", unusual(view, timeline)))
        (view.live("load", load::section(view, load)))
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
            @if count == 0 { p class="empty" { "None in this time: every tick ran, once, on one server." } }
            ul class="why" {
                @for overlap in timeline.overlaps.iter().rev().take(MOST_LISTED) {
                    li { (time(overlap.from, now, None)) (badge("bad", "overlap")) span { (job_link(&overlap.key)) " ran on "
                        (overlap.servers[0]) " and " (overlap.servers[1]) " at once for " (span(overlap.to.since(overlap.from))) } }
                }
                @for (lane, run) in takeovers.iter().rev().take(MOST_LISTED) {
                    li { (time(run.started, now, None)) (badge("warn", "takeover")) span { (lane.server) " took over " (job_link(&run.key)) ", attempt " (run.attempt) } }
                }
                @for gaps in grouped(&timeline.gaps).iter().take(MOST_LISTED) {
                    @let newest = gaps[0];
                    li {
                        (time(newest.tick, now, None)) (badge(if newest.reason.is_some() { "idle" } else { "bad" }, reason_of(newest)))
                        span { (job_link(&newest.key)) @if gaps.len() > 1 { span class="quiet" { ", " (gaps.len()) " ticks since " (time(gaps[gaps.len() - 1].tick, now, None)) } } }
                    }
                }
            }
        }
    }
}

/// The gaps of one job with one reason together, newest first.
fn grouped(gaps: &[TickGap]) -> Vec<Vec<&TickGap>> {
    let mut groups = BTreeMap::<_, Vec<&TickGap>>::new();
    for gap in gaps.iter().rev() {
        groups.entry((&gap.key, reason_of(gap))).or_default().push(gap);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|gaps| std::cmp::Reverse(gaps[0].tick));
    groups
}
