//! Which tick of which job is due next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::claim::{Ask, Purpose};
use crate::Timestamp;
use crate::job::Job;
use crate::schedule::{Missed, OnCrash, Policy, Schedule};

/// The next tick of every job, the earliest first. Pure: the time is passed in.
pub(crate) struct Agenda {
    entries: Vec<Entry>,
    /// When each planned tick is due: an entry is in here exactly while it has one.
    queue: BTreeSet<(Timestamp, usize)>,
    /// The jobs whose ticks were taken, and the ticks to plan for them, each with the one before it.
    taken: Vec<(usize, Option<Timestamp>, Timestamp)>,
}

struct Entry {
    job: Arc<Job>,
    planned: Option<Planned>,
}

/// A tick and those before and after it: found ahead of time, since for cron that takes longer than to start a run.
#[derive(Clone, Copy)]
struct Planned {
    previous: Option<Timestamp>,
    tick: Timestamp,
    next: Option<Timestamp>,
}

/// A tick whose time has come.
pub(crate) struct Due {
    pub(crate) index: usize,
    pub(crate) job: Arc<Job>,
    pub(crate) ask: Ask,
}

const JUST_BEFORE: Duration = Duration::from_micros(1);

impl Agenda {
    pub(crate) fn new(jobs: Vec<Arc<Job>>, now: Timestamp) -> Self {
        let entries = jobs.into_iter().map(|job| Entry { job, planned: None });
        let mut agenda = Self { entries: entries.collect(), queue: BTreeSet::new(), taken: Vec::new() };
        for index in 0..agenda.entries.len() {
            let first = first_tick(&agenda.entries[index].job.policy, now);
            agenda.set(index, first, None);
        }
        agenda
    }

    /// When the next tick is due, after those that were taken have been followed up.
    pub(crate) fn next_due(&mut self) -> Option<Timestamp> {
        for (index, next, taken) in std::mem::take(&mut self.taken) {
            self.set(index, next, Some(taken));
        }
        self.queue.first().map(|(due, _)| *due)
    }

    /// Takes a tick that is due. The one after it is planned when the next one is asked for: not while others wait.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<Due> {
        self.queue.first().filter(|(due, _)| *due <= now)?;
        let (_, index) = self.queue.pop_first()?;
        let entry = &mut self.entries[index];
        let policy = &entry.job.policy;
        let Planned { previous, tick, next } = newest_due(policy, entry.planned.take()?, now)?;
        entry.job.activity.newest.set(tick.as_micros());
        self.taken.push((index, next, tick));
        let ask = Ask { tick, previous, grace: policy.grace_before(tick, next), purpose: Purpose::Due };
        Some(Due { index, job: entry.job.clone(), ask })
    }

    /// The clock was set: plans anew, with every tick that may still start. The store knows which of them were
    /// decided.
    pub(crate) fn plan_again(&mut self, index: usize, now: Timestamp) {
        let entry = &self.entries[index];
        let Some(Planned { tick: planned, .. }) = entry.planned else { return };
        let policy = &entry.job.policy;
        let latest_start = policy.grace_of(planned) + policy.jitter.unwrap_or_default();
        self.plan(index, now.minus(latest_start).min(planned.minus(JUST_BEFORE)));
    }

    pub(crate) fn plan_all_again(&mut self, now: Timestamp) {
        for index in 0..self.entries.len() {
            self.plan_again(index, now);
        }
    }

    fn plan(&mut self, index: usize, after: Timestamp) {
        let entry = &self.entries[index];
        let schedule = entry.job.policy.schedule.as_ref();
        let tick = schedule.and_then(|schedule| schedule.next_after(after));
        self.set(index, tick.or(entry.planned.map(|planned| planned.tick)), None);
    }

    /// Plans a tick; the one before it is looked up unless it is known.
    fn set(&mut self, index: usize, tick: Option<Timestamp>, previous: Option<Timestamp>) {
        let entry = &mut self.entries[index];
        if let Some(due) = entry.due() {
            self.queue.remove(&(due, index));
        }
        let schedule = entry.job.policy.schedule.as_ref();
        entry.planned = tick.zip(schedule).map(|(tick, schedule)| Planned::at(tick, previous, schedule));
        if let Some(due) = entry.due() {
            self.queue.insert((due, index));
        }
    }
}

impl Entry {
    fn due(&self) -> Option<Timestamp> {
        self.planned.map(|Planned { tick, .. }| tick.plus(self.job.policy.delay_of(tick)))
    }
}

impl Planned {
    fn at(tick: Timestamp, previous: Option<Timestamp>, schedule: &Schedule) -> Self {
        let previous = previous.or_else(|| schedule.newest_at(tick.minus(JUST_BEFORE)));
        Self { previous, tick, next: schedule.next_after(tick) }
    }
}

/// The newest tick that has passed, if it may still have to run: nobody could start it, or whoever did may be gone.
/// Else the next one.
fn first_tick(policy: &Policy, now: Timestamp) -> Option<Timestamp> {
    let schedule = policy.schedule.as_ref()?;
    let worth_asking = |tick: Timestamp| {
        let in_time = tick.plus(policy.delay_of(tick)).plus(policy.grace_of(tick));
        in_time >= now || policy.missed == Missed::RunOnce || policy.on_crash == OnCrash::Retry
    };
    schedule.newest_at(now).filter(|tick| worth_asking(*tick)).or_else(|| schedule.next_after(now))
}

/// The tick to claim. After a gap (a suspended machine, a stalled process) only the newest due tick is worth claiming.
fn newest_due(policy: &Policy, planned: Planned, now: Timestamp) -> Option<Planned> {
    if planned.next.is_none_or(|next| next > now) {
        return Some(planned);
    }
    let schedule = policy.schedule.as_ref()?;
    let mut newest = schedule.newest_at(now);
    if newest.is_some_and(|tick| tick.plus(policy.delay_of(tick)) > now) {
        // Its jitter is not over; the one before it is due, since a jitter is shorter than the gap.
        newest = newest.and_then(|tick| schedule.newest_at(tick.minus(JUST_BEFORE)));
    }
    let newest = newest.map_or(planned.tick, |newest| newest.max(planned.tick));
    Some(Planned::at(newest, None, schedule))
}
