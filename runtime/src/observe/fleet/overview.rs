//! Everything about the fleet at once, for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Schedule;

use super::memory::{KnownSchedule, KnownSchedules, OverviewMemory};
pub use super::variants::JobVariant;
use super::variants::variants;
use crate::Timestamp;
use crate::fleet::{Action, HeldLock, LeaseKind, Manifest, ManifestJob, Pause, ServerInfo};
use crate::history::{CurrentRun, History, RunOutcome, RunRecord, SkipRecord, Stats};
use crate::store::{AnnouncedServers, FLEET, JobRecords, KeyState, Look, decide, is_job, lock_key};

/// How long after a tick a job counts as overdue, if nothing is known about its grace.
const USUAL_GRACE: Duration = Duration::from_secs(60);

/// A run that makes so many ticks be skipped takes longer than it should.
const OVERRUNNING: usize = 3;

/// Everything about the fleet at once: [`Jobs::overview`](crate::Jobs::overview).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The store's time.
    pub at: Timestamp,
    /// All jobs, by key.
    pub jobs: Vec<JobOverview>,
    /// The servers that are alive, with their runs, versions and clocks.
    pub servers: Vec<ServerInfo>,
    /// The servers whose heartbeats stopped within the last hour without a shutdown: they crashed, hang, or are cut off from the
    /// store.
    pub lost_servers: Vec<ServerInfo>,
    /// The locks, slots and leaderships that are held; not the runs of jobs.
    pub locks: Vec<HeldLock>,
    /// The work that is marked as done ([`jobs::once`](crate::once())).
    pub done: Vec<DoneWork>,
    /// The pause of all jobs.
    pub pause: Option<Pause>,
    /// The newest actions of operators, newest first.
    pub actions: Vec<Action>,
}

/// Work that is marked as done, and is not done again until the mark expires.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoneWork {
    /// Its key.
    pub key: String,
    /// Instant at which it was done.
    pub at: Timestamp,
    /// Instant at which the mark expires.
    pub until: Timestamp,
}

/// A job in the [overview](Overview).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOverview {
    /// Its key.
    pub key: String,
    /// The description, from the function's doc comment; empty if there is none.
    pub description: String,
    /// The place in the source: `src/imports.rs:14`.
    pub place: Option<String>,
    /// The arguments of the attribute that have an effect, by name, as the newest server has them.
    pub arguments: BTreeMap<String, String>,
    /// The schedule that servers follow: `0 3 * * * Europe/Berlin`; `None` for a job with manual runs only.
    pub schedule: Option<String>,
    /// The schedule in words: `at 03:00 (Europe/Berlin)`.
    pub schedule_in_words: Option<String>,
    /// The next tick that a server will claim: none if no server has the job, and none before the end of a pause.
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
    /// The schedules and settings that servers have for the job, those of the newest server first. More than one: servers differ.
    pub variants: Vec<JobVariant>,
}

/// A problem of a job, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JobAlert {
    /// No server has the job.
    NoServer,
    /// A tick should have started, and no server claimed it.
    Overdue,
    /// The last run did not succeed.
    Failing,
    /// The last run lost its lease.
    LeaseLost,
    /// At least three ticks were skipped because of the run in progress.
    Overrunning,
    /// Servers have different schedules or settings for the job.
    ServersDiffer,
    /// The job is paused.
    Paused,
}

/// What an overview is made of.
pub(crate) struct OverviewParts {
    pub(crate) now: Timestamp,
    pub(crate) keys: BTreeMap<String, Look>,
    /// The newest records of the jobs, so many of each kind or more.
    pub(crate) records: BTreeMap<String, Arc<JobRecords>>,
    pub(crate) newest: usize,
    pub(crate) servers: AnnouncedServers,
    /// The manifests of the servers' programs, and of earlier ones.
    pub(crate) manifests: BTreeMap<String, Arc<Manifest>>,
}

impl Overview {
    pub(crate) fn of(parts: OverviewParts, memory: &mut OverviewMemory) -> Self {
        let OverviewParts { now, keys, mut records, newest, servers, manifests } = parts;
        let AnnouncedServers { alive: servers, lost: lost_servers } = servers;
        let fleet = keys.get(FLEET).and_then(|look| look.state.fleet.as_deref()).cloned().unwrap_or_default();
        let mut jobs = variants(servers.iter().collect(), &manifests);
        for (key, _) in keys.iter().filter(|(key, look)| is_job(key, look)) {
            jobs.entry(key.clone()).or_default();
        }
        let nothing = Look::nothing(now);
        let overview_of = |(key, variants): (String, Vec<JobVariant>)| {
            let look = keys.get(&key).unwrap_or(&nothing);
            let records = records.remove(&key).map(|records| newest_of(&records, newest)).unwrap_or_default();
            let described = described(&key, &variants, &manifests).cloned();
            let described = described.unwrap_or_else(|| ManifestJob::unknown(key));
            JobOverview::new(look, records, (variants, described), &mut memory.schedules)
        };
        let jobs: Vec<_> = jobs.into_iter().map(overview_of).collect();
        memory.schedules.retain(jobs.iter().filter_map(|job| job.schedule.as_deref()));
        let held = keys.iter().flat_map(|(key, look)| decide::held(look, lock_key(key)));
        let is_foreign = |lock: &HeldLock| jobs.iter().any(|job| job.foreign_lock.as_ref() == Some(lock));
        let locks = held.filter(|lock| lock.kind != Some(LeaseKind::Run) && !is_foreign(lock)).collect();
        let pause = fleet.pause.filter(|pause| pause.is_active(now));
        let done = keys.iter().filter_map(|(key, look)| done_work(key, look)).collect();
        Self { at: now, jobs, servers, lost_servers, locks, done, pause, actions: fleet.actions }
    }
}

fn newest_of(records: &JobRecords, newest: usize) -> JobRecords {
    let JobRecords { runs, skips } = records;
    JobRecords {
        runs: runs.iter().take(newest).cloned().collect(),
        skips: skips.iter().take(newest).cloned().collect(),
    }
}

fn done_work(key: &str, look: &Look) -> Option<DoneWork> {
    let done = look.state.done.filter(|done| done.until > look.now)?;
    Some(DoneWork { key: key.to_owned(), at: done.at, until: done.until })
}

impl JobAlert {
    /// Returns the problem in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overdue => "overdue",
            Self::Failing => "failing",
            Self::LeaseLost => "lease_lost",
            Self::NoServer => "no_server",
            Self::Overrunning => "overrunning",
            Self::ServersDiffer => "servers_differ",
            Self::Paused => "paused",
        }
    }
}

impl JobOverview {
    fn new(
        look: &Look,
        records: JobRecords,
        (variants, described): (Vec<JobVariant>, ManifestJob),
        schedules: &mut KnownSchedules,
    ) -> Self {
        let ManifestJob { key, schedule: announced, description, place, arguments } = described;
        let foreign_lock = decide::held(look, &key).into_iter().find(|lock| lock.kind.is_none());
        let History { current, runs, skips, stats, pause, registered, .. } = decide::history(look, records);
        // A schedule is registered with the first tick that is claimed.
        let text = registered.as_ref().map(|registered| registered.schedule.to_string()).or(announced);
        let mut known = text.as_deref().and_then(|text| schedules.get(text));
        let is_free = current.is_none() && foreign_lock.is_none() && pause.is_none();
        // First, because its answer mostly is that to the question for the next tick, too.
        let overdue = known.as_mut().filter(|_| is_free).and_then(|known| known.overdue(look));
        let claimed = known.as_mut().filter(|_| !variants.is_empty());
        let next = claimed.and_then(|known| known.next_claimed(pause.as_ref(), look.now));
        let next_local = known.as_ref().zip(next).and_then(|(known, next)| known.schedule.local_time(next));
        Self {
            key,
            description,
            place: (!place.is_empty()).then_some(place),
            arguments,
            schedule_in_words: known.map(|known| known.in_words.clone()),
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
            servers: variants.iter().flat_map(|variant| variant.servers.iter().cloned()).collect(),
            variants,
        }
    }

    /// Number of ticks that were skipped because of the run in progress, among the newest skips.
    pub fn skipped_by_current_run(&self) -> usize {
        let Some(run) = &self.current else { return 0 };
        let is_its = |skip: &&SkipRecord| {
            let holder = skip.holder.as_ref();
            holder.is_some_and(|holder| {
                holder.since == Some(run.started) && holder.server.as_ref() == Some(&run.server)
            })
        };
        self.skips.iter().filter(is_its).count()
    }

    /// What an operator has to look at, the worst first.
    pub fn alerts(&self) -> Vec<JobAlert> {
        let last = self.runs.iter().find(|run| run.outcome != RunOutcome::NotStarted).map(|run| run.outcome);
        let alerts = [
            (JobAlert::NoServer, self.servers.is_empty()),
            (JobAlert::Overdue, self.overdue.is_some()),
            (JobAlert::Failing, last.is_some_and(RunOutcome::is_failure)),
            (JobAlert::LeaseLost, last == Some(RunOutcome::LeaseLost)),
            (JobAlert::Overrunning, self.skipped_by_current_run() >= OVERRUNNING),
            (JobAlert::ServersDiffer, self.variants.len() > 1),
            (JobAlert::Paused, self.pause.is_some()),
        ];
        alerts.into_iter().filter(|(_, is_so)| *is_so).map(|(alert, _)| alert).collect()
    }
}

/// The job in the manifest of the newest server that has it, or in any manifest if no server has it any more.
fn described<'a>(
    key: &str,
    variants: &'a [JobVariant],
    manifests: &'a BTreeMap<String, Arc<Manifest>>,
) -> Option<&'a ManifestJob> {
    let announced = variants.iter().find_map(|variant| variant.job.as_ref());
    announced.or_else(|| manifests.values().find_map(|manifest| manifest.job(key)))
}

impl KnownSchedule {
    /// The next tick that is not skipped by a pause.
    fn next_claimed(&mut self, pause: Option<&Pause>, now: Timestamp) -> Option<Timestamp> {
        match pause {
            None => self.next_after(now),
            // A tick at the end of the pause runs.
            Some(pause) => self.schedule.next_after(pause.until? - Duration::from_micros(1)),
        }
    }

    /// As [`overdue`], but most jobs need only the tick that is next anyway.
    fn overdue(&mut self, look: &Look) -> Option<Timestamp> {
        let first = self.next_after(newest_decided(&look.state)?)?;
        (first <= look.now - usual_grace(&look.state)).then(|| overdue(look, &self.schedule))?
    }
}

/// The newest tick whose grace is over and that no server has decided.
pub(super) fn overdue(look: &Look, schedule: &Schedule) -> Option<Timestamp> {
    let tick = schedule.newest_at(look.now - usual_grace(&look.state))?;
    newest_decided(&look.state).is_some_and(|decided| tick > decided).then_some(tick)
}

/// The newest tick that a server has claimed or skipped, or the instant from which on it does.
fn newest_decided(state: &KeyState) -> Option<Timestamp> {
    let mark = state.mark.as_ref().map(|mark| mark.tick);
    let known = state.registered.as_ref().map(|registered| registered.at);
    known.max(mark)
}

/// The delay and the grace of the last tick that was decided.
pub(super) fn usual_grace(state: &KeyState) -> Duration {
    let mark = state.mark.as_ref().map(|mark| mark.tick);
    let grace = state.claimable_until.zip(mark).map(|(until, mark)| until.since(mark));
    grace.unwrap_or(USUAL_GRACE)
}
