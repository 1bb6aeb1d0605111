//! Everything about the fleet at once, for people.

use std::collections::BTreeMap;
use std::time::Duration;

use singleton_jobs_policy::Schedule;

use crate::Timestamp;
use crate::fleet::{Action, HeldLock, LeaseKind, Pause, ServerInfo};
use crate::history::{CurrentRun, History, RunOutcome, RunRecord, SkipRecord, Stats};
use crate::store::{FLEET, JobRecords, Look, decide, is_job, lock_key};

/// How long after a tick a job counts as overdue, if nothing is known about its grace.
const USUAL_GRACE: Duration = Duration::from_secs(60);

/// Everything about the fleet at once: [`Jobs::overview`](crate::Jobs::overview).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The store's time.
    pub at: Timestamp,
    /// All jobs, by key.
    pub jobs: Vec<JobOverview>,
    /// The servers, with their runs, versions and clocks.
    pub servers: Vec<ServerInfo>,
    /// The locks, slots and leaderships that are held; not the runs of jobs.
    pub locks: Vec<HeldLock>,
    /// The pause of all jobs.
    pub pause: Option<Pause>,
    /// The newest actions of operators, newest first.
    pub actions: Vec<Action>,
}

/// A job in the [overview](Overview).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOverview {
    /// Its key.
    pub key: String,
    /// The schedule that servers follow: `0 3 * * * Europe/Berlin`; `None` if no tick was ever claimed.
    pub schedule: Option<String>,
    /// The schedule in words: `at 03:00 (Europe/Berlin)`.
    pub schedule_in_words: Option<String>,
    /// The next tick.
    pub next: Option<Timestamp>,
    /// The next tick in the zone of the schedule, if that is not UTC.
    pub next_local: Option<String>,
    /// The run in progress, with its progress.
    pub current: Option<CurrentRun>,
    /// The newest runs that ended, newest first.
    pub runs: Vec<RunRecord>,
    /// The newest skips, newest first.
    pub skips: Vec<SkipRecord>,
    /// Counts and durations over all runs.
    pub stats: Stats,
    /// The pause.
    pub pause: Option<Pause>,
    /// The newest tick that should have started by now, and that no server has claimed or skipped.
    pub overdue: Option<Timestamp>,
    /// Another program that holds the lock of the job.
    pub foreign_lock: Option<HeldLock>,
    /// The ids of the servers that have the job. Empty: no server does.
    pub servers: Vec<String>,
}

/// A problem of a job, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JobAlert {
    /// A tick should have started, and no server claimed it.
    Overdue,
    /// The last run did not succeed.
    Failing,
    /// The last run lost its lease.
    LeaseLost,
    /// No server has the job.
    NoServer,
    /// The job is paused.
    Paused,
}

/// What an overview is made of.
pub(crate) struct OverviewParts {
    pub(crate) now: Timestamp,
    pub(crate) keys: BTreeMap<String, Look>,
    /// The newest records of the jobs.
    pub(crate) records: BTreeMap<String, JobRecords>,
    pub(crate) servers: Vec<ServerInfo>,
}

impl Overview {
    pub(crate) fn of(parts: OverviewParts) -> Self {
        let OverviewParts { now, keys, mut records, servers } = parts;
        let fleet = keys.get(FLEET).and_then(|look| look.state.fleet.as_deref()).cloned().unwrap_or_default();
        let mut jobs: BTreeMap<String, Vec<String>> = keys
            .iter()
            .filter(|(key, look)| is_job(key, look))
            .map(|(key, _)| (key.clone(), Vec::new()))
            .collect();
        for server in &servers {
            for job in &server.jobs {
                jobs.entry(job.key.clone()).or_default().push(server.id.clone());
            }
        }
        let nothing = Look::nothing(now);
        let overview_of = |(key, servers): (String, Vec<String>)| {
            let look = keys.get(&key).unwrap_or(&nothing);
            let records = records.remove(&key).unwrap_or_default();
            JobOverview::new(key, look, records, servers)
        };
        let jobs: Vec<_> = jobs.into_iter().map(overview_of).collect();
        let held = keys.iter().flat_map(|(key, look)| decide::held(look, lock_key(key)));
        let is_foreign = |lock: &HeldLock| jobs.iter().any(|job| job.foreign_lock.as_ref() == Some(lock));
        let locks = held.filter(|lock| lock.kind != Some(LeaseKind::Run) && !is_foreign(lock)).collect();
        let pause = fleet.pause.filter(|pause| pause.is_active(now));
        Self { at: now, jobs, servers, locks, pause, actions: fleet.actions }
    }
}

impl JobOverview {
    fn new(key: String, look: &Look, records: JobRecords, servers: Vec<String>) -> Self {
        let foreign_lock = decide::held(look, &key).into_iter().find(|lock| lock.kind.is_none());
        let History { current, runs, skips, stats, pause, registered, .. } = decide::history(look, records);
        let text = registered.as_ref().map(|registered| registered.schedule.to_string());
        let schedule = text.as_deref().and_then(Schedule::from_text);
        let next = schedule.as_ref().and_then(|schedule| schedule.next_after(look.now));
        let next_local = schedule.as_ref().zip(next).and_then(|(schedule, next)| schedule.local_time(next));
        let is_free = current.is_none() && foreign_lock.is_none() && pause.is_none();
        let overdue = schedule.as_ref().filter(|_| is_free).and_then(|schedule| overdue(look, schedule));
        Self {
            key,
            schedule_in_words: schedule.as_ref().map(Schedule::in_words),
            schedule: text,
            next,
            next_local,
            current,
            runs,
            skips,
            stats,
            pause,
            overdue,
            foreign_lock,
            servers,
        }
    }

    /// What an operator has to look at, the worst first.
    pub fn alerts(&self) -> Vec<JobAlert> {
        let last = self.runs.iter().find(|run| run.outcome != RunOutcome::NotStarted).map(|run| run.outcome);
        let alerts = [
            (JobAlert::Overdue, self.overdue.is_some()),
            (JobAlert::Failing, last.is_some_and(RunOutcome::is_failure)),
            (JobAlert::LeaseLost, last == Some(RunOutcome::LeaseLost)),
            (JobAlert::NoServer, self.servers.is_empty()),
            (JobAlert::Paused, self.pause.is_some()),
        ];
        alerts.into_iter().filter(|(_, is_so)| *is_so).map(|(alert, _)| alert).collect()
    }
}

/// The newest tick whose grace is over and that no server has decided.
fn overdue(look: &Look, schedule: &Schedule) -> Option<Timestamp> {
    let state = &look.state;
    let mark = state.mark.as_ref().map(|mark| mark.tick);
    // The delay and the grace of the last tick that was decided.
    let grace = state.claimable_until.zip(mark).map(|(until, mark)| until.since(mark));
    let tick = schedule.newest_at(look.now - grace.unwrap_or(USUAL_GRACE))?;
    let known = state.registered.as_ref().map(|registered| registered.at);
    (known.max(mark).is_some_and(|decided| tick > decided)).then_some(tick)
}
