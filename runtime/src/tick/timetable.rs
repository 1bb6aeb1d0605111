//! The timetable: the next tick of every job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::claim;
use crate::Timestamp;
use crate::job::Job;
use crate::schedule::{Missed, OnCrash, Policy, Schedule};
use crate::store::TickClaim;

/// The next tick of every job, the earliest first. Pure: the time is passed in.
pub(crate) struct Timetable {
    jobs: Vec<TimetableJob>,
    /// When each planned tick is due, and the index of its job. Holds exactly the jobs that have a planned
    /// tick.
    queue: BTreeSet<(Timestamp, usize)>,
    /// The ticks that were taken and whose successor is not planned yet, each with the index of its job.
    taken: Vec<(usize, PlannedTick)>,
}

struct TimetableJob {
    job: Arc<Job>,
    planned: Option<PlannedTick>,
}

/// A tick and its neighbours. They are computed ahead of time: for cron that takes longer than to start a
/// run.
#[derive(Clone, Copy)]
struct PlannedTick {
    previous: Option<Timestamp>,
    tick: Timestamp,
    next: Option<Timestamp>,
}

/// A tick that is due.
pub(crate) struct DueTick {
    /// The job's index in the timetable.
    pub(crate) index: usize,
    pub(crate) job: Arc<Job>,
    pub(crate) claim: TickClaim,
}

/// The resolution of a timestamp.
const JUST_BEFORE: Duration = Duration::from_micros(1);

impl Timetable {
    pub(crate) fn new(jobs: Vec<Arc<Job>>, now: Timestamp) -> Self {
        let jobs = jobs.into_iter().map(|job| TimetableJob { job, planned: None });
        let mut timetable = Self { jobs: jobs.collect(), queue: BTreeSet::new(), taken: Vec::new() };
        for index in 0..timetable.jobs.len() {
            let first = first_tick(&timetable.jobs[index].job.policy, now);
            timetable.set(index, first, None);
        }
        timetable
    }

    /// Plans the successors of the ticks that were taken, and returns when the next tick is due.
    pub(crate) fn next_due(&mut self) -> Option<Timestamp> {
        for (index, PlannedTick { tick, next, .. }) in std::mem::take(&mut self.taken) {
            self.set(index, next, Some(tick));
        }
        self.queue.first().map(|(due, _)| *due)
    }

    /// Takes a tick that is due. Its successor is planned by [`next_due`](Self::next_due), when no due tick
    /// is left.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<DueTick> {
        self.queue.first().filter(|(due, _)| *due <= now)?;
        let (_, index) = self.queue.pop_first()?;
        let entry = &mut self.jobs[index];
        let policy = &entry.job.policy;
        let due = newest_due(policy, entry.planned.take()?, now)?;
        let PlannedTick { previous, tick, next } = due;
        entry.job.activity.newest.set(tick.as_micros());
        self.taken.push((index, due));
        let claim = claim::due(&entry.job, tick, previous, policy.grace_before(tick, next));
        Some(DueTick { index, job: entry.job.clone(), claim })
    }

    /// Plans a job anew after the clock was corrected, with every tick that may still start. The store knows
    /// which of them were decided.
    pub(crate) fn plan_again(&mut self, index: usize, now: Timestamp) {
        let entry = &self.jobs[index];
        let Some(PlannedTick { tick: planned, .. }) = entry.planned else { return };
        let policy = &entry.job.policy;
        let latest_start = policy.grace_of(planned) + policy.jitter.unwrap_or_default();
        self.plan(index, (now - latest_start).min(planned - JUST_BEFORE));
    }

    pub(crate) fn plan_all_again(&mut self, now: Timestamp) {
        for index in 0..self.jobs.len() {
            self.plan_again(index, now);
        }
    }

    fn plan(&mut self, index: usize, after: Timestamp) {
        let entry = &self.jobs[index];
        let schedule = entry.job.policy.schedule.as_ref();
        let tick = schedule.and_then(|schedule| schedule.next_after(after));
        self.set(index, tick.or(entry.planned.map(|planned| planned.tick)), None);
    }

    /// Plans a tick. Its predecessor is computed unless it is known.
    fn set(&mut self, index: usize, tick: Option<Timestamp>, previous: Option<Timestamp>) {
        let entry = &mut self.jobs[index];
        if let Some(due) = entry.due() {
            self.queue.remove(&(due, index));
        }
        let schedule = entry.job.policy.schedule.as_ref();
        entry.planned = tick.zip(schedule).map(|(tick, schedule)| PlannedTick::at(tick, previous, schedule));
        #[cfg(feature = "metrics")]
        entry.job.metrics().next_tick(entry.planned.map(|planned| planned.tick));
        if let Some(due) = entry.due() {
            self.queue.insert((due, index));
        }
    }
}

impl TimetableJob {
    fn due(&self) -> Option<Timestamp> {
        self.planned.map(|PlannedTick { tick, .. }| tick + self.job.policy.delay_of(tick))
    }
}

impl PlannedTick {
    fn at(tick: Timestamp, previous: Option<Timestamp>, schedule: &Schedule) -> Self {
        let previous = previous.or_else(|| schedule.newest_at(tick - JUST_BEFORE));
        Self { previous, tick, next: schedule.next_after(tick) }
    }
}

/// The newest tick that has passed, if it may still have to run: no server could start it, or the one that
/// did may be gone. Otherwise the next tick.
fn first_tick(policy: &Policy, now: Timestamp) -> Option<Timestamp> {
    let schedule = policy.schedule.as_ref()?;
    let may_have_to_run = |tick: Timestamp| {
        let in_time = tick + policy.delay_of(tick) + policy.grace_of(tick);
        in_time >= now || policy.missed == Missed::RunOnce || policy.on_crash == OnCrash::Retry
    };
    schedule.newest_at(now).filter(|tick| may_have_to_run(*tick)).or_else(|| schedule.next_after(now))
}

/// The tick to claim. After a gap (a suspended machine, a stalled process) only the newest due tick is
/// claimed.
fn newest_due(policy: &Policy, planned: PlannedTick, now: Timestamp) -> Option<PlannedTick> {
    if planned.next.is_none_or(|next| next > now) {
        return Some(planned);
    }
    let schedule = policy.schedule.as_ref()?;
    let mut newest = schedule.newest_at(now);
    if newest.is_some_and(|tick| tick + policy.delay_of(tick) > now) {
        // Its jitter is not over. Its predecessor is due, since a jitter is shorter than the gap between
        // ticks.
        newest = newest.and_then(|tick| schedule.newest_at(tick - JUST_BEFORE));
    }
    let newest = newest.map_or(planned.tick, |newest| newest.max(planned.tick));
    Some(PlannedTick::at(newest, None, schedule))
}
