//! The load of the next day: when many jobs are due at once.

use std::collections::BTreeMap;
use std::time::Duration;

use singleton_jobs_policy::Schedule;

use super::overview::{JobOverview, Overview};
use crate::Timestamp;

const STEP: Duration = Duration::from_secs(600);
const CELLS: usize = 144;

/// Ticks of one job in one cell that are computed one by one. Those of a job with more follow at the pace of these.
const MOST_TICKS: u64 = 60;

/// The ticks of the next 24 hours, and the work that they will be: [`Overview::load_map`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadMap {
    /// The length of a cell: ten minutes.
    pub step: Duration,
    /// The cells, in the order of time. The first one has begun.
    pub cells: Vec<LoadCell>,
}

/// Ten minutes of a [`LoadMap`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadCell {
    /// Its begin.
    pub at: Timestamp,
    /// The number of ticks.
    pub ticks: u64,
    /// The ticks, each as long as the successful runs of its job on average.
    pub work: Duration,
    /// The keys of the jobs that have a tick.
    pub jobs: Vec<String>,
}

impl Overview {
    /// Returns the ticks of the next 24 hours in steps of ten minutes. Jobs that no server has, and ticks of a pause, are left out.
    pub fn load_map(&self) -> LoadMap {
        let step = i64::try_from(STEP.as_micros()).unwrap_or(1);
        let begin = Timestamp::from_micros(self.at.as_micros().div_euclid(step) * step);
        let mut cells: Vec<_> = std::iter::successors(Some(begin), |at| Some(*at + STEP))
            .take(CELLS)
            .map(|at| LoadCell { at, ticks: 0, work: Duration::ZERO, jobs: Vec::new() })
            .collect();
        let mut known = BTreeMap::new();
        for job in self.jobs.iter().filter(|job| !job.servers.is_empty()) {
            let Some(text) = job.schedule.as_deref() else { continue };
            let ticks = known.entry(text).or_insert_with(|| ticks_per_cell(text, self.at, begin));
            for (cell, ticks) in cells.iter_mut().zip(ticks.iter()) {
                add(cell, *ticks, job);
            }
        }
        LoadMap { step: STEP, cells }
    }
}

fn add(cell: &mut LoadCell, ticks: u64, job: &JobOverview) {
    let is_paused = job.pause.as_ref().is_some_and(|pause| pause.is_active(cell.at + STEP));
    if ticks == 0 || is_paused {
        return;
    }
    cell.ticks += ticks;
    let mean = job.stats.mean().unwrap_or_default();
    cell.work += mean.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    cell.jobs.push(job.key.clone());
}

/// The number of ticks in each cell. A cell without ticks costs nothing.
fn ticks_per_cell(schedule: &str, now: Timestamp, begin: Timestamp) -> Vec<u64> {
    let mut counts = vec![0; CELLS];
    let Some(schedule) = Schedule::from_text(schedule) else { return counts };
    let cell_of = |tick: Timestamp| tick.since(begin).as_micros() / STEP.as_micros();
    let mut next = schedule.next_after(now);
    while let Some(first) = next {
        let cell = usize::try_from(cell_of(first)).unwrap_or(CELLS);
        let Some(count) = counts.get_mut(cell) else { break };
        let (mut ticks, mut last) = (1, first);
        loop {
            next = schedule.next_after(last);
            match next {
                Some(tick) if cell_of(tick) == cell_of(first) && ticks < MOST_TICKS => {
                    (ticks, last) = (ticks + 1, tick);
                }
                _ => break,
            }
        }
        *count = ticks;
        if ticks == MOST_TICKS {
            // The last instant of the cell.
            let end = begin + STEP * u32::try_from(cell + 1).unwrap_or(u32::MAX) - Duration::from_micros(1);
            let pace = last.since(first).as_micros() / u128::from(MOST_TICKS - 1);
            *count += u64::try_from(end.since(last).as_micros() / pace.max(1)).unwrap_or(u64::MAX);
            next = schedule.next_after(end);
        }
    }
    counts
}
