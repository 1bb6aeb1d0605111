//! Writes the trace of a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::workload::effects::SimulatedDatabase;
use crate::Timestamp;
use crate::events::{Event, EventKind, SkipReason};
use crate::history::{RunOutcome, RunRecord};
use crate::testing::TestClock;
use crate::testing::check::{Fault, HELD, LeaseRef, Observed, Trace};
use crate::util::clock::Clock;
use crate::util::lock;
use crate::util::probe::reached;

/// The trace of a simulation, while it is written. Clones write the same one.
#[derive(Clone)]
pub(in crate::testing) struct Recorder(Arc<Mutex<Recording>>);

struct Recording {
    trace: Trace,
    begun: Instant,
    is_closed: bool,
    /// The servers that claim ticks: the version of their jobs, and the key of a job that they do not have.
    claiming: BTreeMap<Arc<str>, (usize, Option<String>)>,
    /// When servers ended.
    ended: BTreeMap<Arc<str>, u64>,
    /// A resource that compares fences: the highest one that it has seen of each key.
    written: BTreeMap<Arc<str>, i64>,
    /// Whether that resource compares fences.
    is_fenced: bool,
    /// The application's database, as each server reaches it.
    databases: BTreeMap<Arc<str>, SimulatedDatabase>,
    /// Whether that database compares leases.
    checks_leases: bool,
    /// The leases under which a transaction was sent.
    finishing: BTreeSet<(Arc<str>, i64)>,
    store_clock: TestClock,
}

impl Recorder {
    pub(in crate::testing) fn new(store_clock: &TestClock, trace: Trace) -> Self {
        Self(Arc::new(Mutex::new(Recording {
            trace,
            begun: Instant::now(),
            is_closed: false,
            claiming: BTreeMap::new(),
            ended: BTreeMap::new(),
            written: BTreeMap::new(),
            is_fenced: true,
            databases: BTreeMap::new(),
            checks_leases: true,
            finishing: BTreeSet::new(),
            store_clock: store_clock.clone(),
        })))
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        lock(&self.0)
    }

    pub(in crate::testing) fn add(&self, server: &Arc<str>, what: Observed) {
        let mut recording = self.recording();
        if !recording.is_closed {
            let at = recording.now();
            recording.trace.add(at, server, what);
        }
    }

    /// Adds an observation about the store or the simulation.
    pub(in crate::testing) fn add_general(&self, what: Observed) {
        self.add(&"".into(), what);
    }

    /// Adds a fault that has no duration.
    pub(in crate::testing) fn instant_fault(&self, server: &Arc<str>, fault: Fault) {
        self.add(server, Observed::FaultBegan(fault));
        self.add(server, Observed::FaultEnded(fault));
    }

    /// Ends the recording, and returns the trace.
    pub(in crate::testing) fn finish(&self) -> Trace {
        let mut recording = self.recording();
        let at = recording.now();
        recording.trace.add(at, &"".into(), Observed::Finished);
        recording.is_closed = true;
        // They refer to this recorder.
        recording.databases.clear();
        std::mem::take(&mut recording.trace)
    }

    pub(super) fn store_time(&self) -> Timestamp {
        self.recording().store_clock.now()
    }

    pub(super) fn accept_stale_writes(&self) {
        self.recording().is_fenced = false;
    }

    pub(super) fn commit_under_any_lease(&self) {
        self.recording().checks_leases = false;
    }

    pub(super) fn checks_leases(&self) -> bool {
        self.recording().checks_leases
    }

    pub(super) fn connect(&self, server: &Arc<str>, database: SimulatedDatabase) {
        self.recording().databases.insert(server.clone(), database);
    }

    /// The application's database, as a server reaches it.
    pub(super) fn database(&self, server: &str) -> Option<SimulatedDatabase> {
        self.recording().databases.get(server).cloned()
    }

    /// Notes that a transaction was sent under this lease.
    pub(super) fn finishes(&self, lease: &LeaseRef) {
        self.recording().finishing.insert((lease.key.clone(), lease.fence));
    }

    /// Adds what the record of a run says about its effect.
    pub(super) fn end_recorded(&self, server: &Arc<str>, key: &Arc<str>, run: &RunRecord) {
        let lease = LeaseRef { key: key.clone(), fence: run.fence };
        let is_committed = match run.outcome {
            RunOutcome::Committed => true,
            RunOutcome::Succeeded if self.recording().finishing.contains(&(key.clone(), run.fence)) => true,
            RunOutcome::Crashed => false,
            _ => return,
        };
        self.add(server, Observed::EndRecorded { lease, is_committed });
    }

    pub(in crate::testing) fn server_started(&self, server: &Arc<str>, version: usize, lacks: Option<&str>) {
        self.add(server, Observed::ServerStarted);
        if let Some(key) = lacks {
            self.add(server, Observed::LacksJob(key.into()));
        }
        self.recording().claiming.insert(server.clone(), (version, lacks.map(str::to_owned)));
    }

    /// A server that shuts down claims nothing more.
    pub(in crate::testing) fn server_stops_claiming(&self, server: &Arc<str>) {
        self.recording().claiming.remove(server);
    }

    pub(in crate::testing) fn server_ended(&self, server: &Arc<str>) {
        self.server_stops_claiming(server);
        let mut recording = self.recording();
        let at = recording.now();
        let is_first = recording.ended.insert(server.clone(), at).is_none();
        drop(recording);
        if is_first {
            self.add(server, Observed::ServerEnded);
        }
    }

    /// How many microseconds ago a server ended.
    pub(super) fn ended_for(&self, server: &str) -> Option<u64> {
        let recording = self.recording();
        recording.ended.get(server).map(|at| recording.now() - at)
    }

    /// The servers that claim the ticks of one of these versions of a job.
    pub(super) fn claiming(&self, key: &str, versions: &[bool]) -> Vec<Arc<str>> {
        let recording = self.recording();
        // A server of a later deploy has the last version that there is.
        let has_version = |of: usize| versions.get(of).or(versions.last()).is_some_and(|has_it| *has_it);
        let claiming = recording.claiming.iter();
        let claiming = claiming.filter(|(_, (of, lacks))| has_version(*of) && lacks.as_deref() != Some(key));
        claiming.map(|(server, _)| server.clone()).collect()
    }

    /// Writes to a resource that compares fences.
    pub(super) fn write(&self, server: &Arc<str>, lease: &LeaseRef) {
        let mut recording = self.recording();
        let is_fenced = recording.is_fenced;
        let highest = recording.written.entry(lease.key.clone()).or_default();
        let is_stale = lease.fence < *highest;
        *highest = lease.fence.max(*highest);
        drop(recording);
        if !(is_stale && is_fenced) {
            self.add(server, Observed::Wrote(lease.clone()));
        }
    }

    /// Explains one tick.
    pub(super) fn explain(&self, server: &Arc<str>, key: &Arc<str>, tick: Timestamp, why: &str) {
        let until = Timestamp::from_micros(tick.as_micros() + 1);
        self.add(server, Observed::Explained { key: key.clone(), first: tick, until, why: why.into() });
    }

    /// Adds what an event says.
    pub(super) fn event(&self, server: &Arc<str>, event: &Event, is_kept_alive: impl Fn(&str) -> bool) {
        let key: Arc<str> = event.key.as_str().into();
        match &event.kind {
            EventKind::Skipped { tick, reason } => {
                reached(format_args!("skipped: {}", VariantName(reason)));
                match reason {
                    SkipReason::Taken(_) => {}
                    SkipReason::Held(_) | SkipReason::ApplicationBlocked | SkipReason::StillRunning => {
                        self.explain(server, &key, *tick, HELD);
                    }
                    other => self.explain(server, &key, *tick, &VariantName(other).to_string()),
                }
            }
            EventKind::Overdue { tick } => self.explain(server, &key, *tick, "overdue"),
            EventKind::Missed { first, won, .. } => {
                let why = "missed".into();
                self.add(server, Observed::Explained { key, first: *first, until: *won, why });
            }
            EventKind::LeaseLost { run, .. } if is_kept_alive(&key) => {
                self.add(server, Observed::Lost(LeaseRef { key, fence: run.fence }));
            }
            EventKind::LockLost { fence } => {
                self.add(server, Observed::Lost(LeaseRef { key, fence: *fence }));
            }
            _ => {}
        }
        reached(format_args!("event: {}", VariantName(&event.kind)));
    }
}

impl Recording {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Shows the name of a value's variant: the first word of its debug output, of which nothing else is made.
pub(super) struct VariantName<T>(pub(super) T);

impl<T: fmt::Debug> fmt::Display for VariantName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first_word = FirstWord { shown_on: f, is_over: false };
        let shown = write!(first_word, "{:?}", self.0);
        if first_word.is_over { Ok(()) } else { shown }
    }
}

/// Writes the first word, and ends the output after it by an error.
struct FirstWord<'a, 'f> {
    shown_on: &'a mut fmt::Formatter<'f>,
    is_over: bool,
}

impl fmt::Write for FirstWord<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = first_word(text);
        self.is_over = word.len() < text.len();
        self.shown_on.write_str(word)?;
        if self.is_over { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The name of a variant.
pub(super) fn first_word(debug: &str) -> &str {
    debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// A lease in use: its end is recorded when this is dropped.
pub(super) struct UsedLease {
    recorder: Recorder,
    server: Arc<str>,
    lease: LeaseRef,
}

/// The begin of the use of a lease.
pub(super) struct LeaseUse<'a> {
    pub(super) key: &'a str,
    pub(super) fence: i64,
    pub(super) tick: Option<Timestamp>,
    pub(super) attempt: u32,
    pub(super) retry: u32,
}

impl<'a> LeaseUse<'a> {
    pub(super) fn of_lock(key: &'a str, fence: i64) -> Self {
        Self { key, fence, tick: None, attempt: 1, retry: 0 }
    }
}

impl UsedLease {
    pub(super) fn begin(recorder: &Recorder, server: &str, used: &LeaseUse<'_>) -> Self {
        let LeaseUse { key, fence, tick, attempt, retry } = *used;
        let (server, lease): (Arc<str>, _) = (server.into(), LeaseRef { key: key.into(), fence });
        let store_time = recorder.store_time();
        let began = Observed::Began { lease: lease.clone(), tick, attempt, retry, store_time };
        recorder.add(&server, began);
        Self { recorder: recorder.clone(), server, lease }
    }

    /// The holder works under its lease, and writes.
    pub(super) fn step(&self) {
        self.recorder.add(&self.server, Observed::Stepped(self.lease.clone()));
        self.recorder.write(&self.server, &self.lease);
    }
}

impl Drop for UsedLease {
    fn drop(&mut self) {
        self.recorder.add(&self.server, Observed::Ended(self.lease.clone()));
    }
}
