//! The runs of a span of time on all servers, with what is unusual about them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::overview::{JobOverview, Overview};
use crate::Timestamp;
use crate::history::{RunOutcome, Skip, Trigger};

/// Which server ran which job when: [`Overview::timeline`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunTimeline {
    /// Its begin.
    pub from: Timestamp,
    /// Its end: the store's time.
    pub to: Timestamp,
    /// The servers, those that are alive first.
    pub lanes: Vec<ServerLane>,
    /// The ticks that did not run, oldest first.
    pub gaps: Vec<TickGap>,
    /// Runs of one job at the same time.
    pub overlaps: Vec<RunOverlap>,
    /// The jobs whose older runs are missing here, with the begin of the oldest run that is not.
    pub cut_off: BTreeMap<String, Timestamp>,
}

/// The runs of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLane {
    /// The id of the server.
    pub server: String,
    /// Whether it is alive.
    pub is_alive: bool,
    /// Its runs, oldest first.
    pub runs: Vec<TimelineRun>,
}

/// A run on the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelineRun {
    /// The key of the job.
    pub key: String,
    /// Its tick; `None` for a manual run.
    pub tick: Option<Timestamp>,
    /// Instant of the claim.
    pub started: Timestamp,
    /// Instant of the end; that of the timeline for a run in progress.
    pub ended: Timestamp,
    /// The outcome; `None` for a run in progress.
    pub outcome: Option<RunOutcome>,
    /// What caused it.
    pub trigger: Trigger,
    /// The number of the attempt at the tick, from 1.
    pub attempt: u32,
}

/// A tick that did not run, or the first of several that were missed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickGap {
    /// The key of the job.
    pub key: String,
    /// The tick.
    pub tick: Timestamp,
    /// The reason; `None` for a tick that is overdue.
    pub reason: Option<Skip>,
}

/// Two runs of one job, the second of which began before the first had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOverlap {
    /// The key of the job.
    pub key: String,
    /// The servers of the two runs.
    pub servers: [String; 2],
    /// Instant at which the second run began.
    pub from: Timestamp,
    /// Instant at which the first of them ended.
    pub to: Timestamp,
}

impl Overview {
    /// Returns the runs that were in progress within this time before now, by server. It has only runs that are in the overview.
    pub fn timeline(&self, last: Duration) -> RunTimeline {
        let (from, to) = (self.at - last, self.at);
        let mut lanes: BTreeMap<&str, Vec<TimelineRun>> =
            self.servers.iter().map(|server| (server.id.as_str(), Vec::new())).collect();
        let (mut gaps, mut overlaps, mut cut_off) = (Vec::new(), Vec::new(), BTreeMap::new());
        for job in &self.jobs {
            let mut runs = runs_of(job, to);
            runs.retain(|(_, run)| run.ended >= from);
            overlaps.extend(overlaps_of(job, &runs));
            for (server, run) in runs {
                lanes.entry(server).or_default().push(run);
            }
            let skipped = job.skips.iter().map(|skip| (skip.tick, Some(skip.reason)));
            let ticks = skipped.chain(job.overdue.map(|tick| (tick, None)));
            let ticks = ticks.filter(|(tick, _)| (from..=to).contains(tick));
            gaps.extend(ticks.map(|(tick, reason)| TickGap { key: job.key.clone(), tick, reason }));
            let oldest = job.runs.last().map(|run| run.started).filter(|started| *started > from);
            if let Some(oldest) = oldest.filter(|_| job.stats.runs > job.runs.len() as u64 + 1) {
                cut_off.insert(job.key.clone(), oldest);
            }
        }
        gaps.sort_by(|one, other| (one.tick, &one.key).cmp(&(other.tick, &other.key)));
        let is_alive = |id: &str| self.servers.iter().any(|server| server.id == id);
        let mut lanes: Vec<_> = lanes.into_iter().map(|(id, runs)| lane(id, is_alive(id), runs)).collect();
        lanes.sort_by_key(|lane| !lane.is_alive);
        RunTimeline { from, to, lanes, gaps, overlaps, cut_off }
    }
}

fn lane(server: &str, is_alive: bool, mut runs: Vec<TimelineRun>) -> ServerLane {
    runs.sort_by(|one, other| (one.started, &one.key).cmp(&(other.started, &other.key)));
    ServerLane { server: server.to_owned(), is_alive, runs }
}

/// The runs of a job that have started, with their servers.
fn runs_of(job: &JobOverview, now: Timestamp) -> Vec<(&str, TimelineRun)> {
    let ended = job.runs.iter().filter(|run| run.outcome != RunOutcome::NotStarted).map(|run| {
        let shown = TimelineRun {
            key: job.key.clone(),
            tick: run.tick,
            started: run.started,
            ended: run.ended,
            outcome: Some(run.outcome),
            trigger: run.trigger,
            attempt: run.attempt,
        };
        (run.server.as_str(), shown)
    });
    let current = job.current.iter().map(|run| {
        let shown = TimelineRun {
            key: job.key.clone(),
            tick: run.tick,
            started: run.started,
            ended: now.max(run.started),
            outcome: None,
            trigger: run.trigger,
            attempt: run.attempt,
        };
        (run.server.as_str(), shown)
    });
    ended.chain(current).collect()
}

/// Each run that began before an earlier one had ended, with the one of these that ended last.
fn overlaps_of(job: &JobOverview, runs: &[(&str, TimelineRun)]) -> Vec<RunOverlap> {
    let mut runs: Vec<_> = runs.iter().collect();
    runs.sort_by_key(|(_, run)| run.started);
    let (mut overlaps, mut longest) = (Vec::new(), None::<&(&str, TimelineRun)>);
    for next in runs {
        if let Some((server, run)) = longest.filter(|(_, run)| next.1.started < run.ended) {
            overlaps.push(RunOverlap {
                key: job.key.clone(),
                servers: [(*server).to_owned(), next.0.to_owned()],
                from: next.1.started,
                to: run.ended.min(next.1.ended),
            });
        }
        if longest.is_none_or(|(_, run)| run.ended < next.1.ended) {
            longest = Some(next);
        }
    }
    overlaps
}
