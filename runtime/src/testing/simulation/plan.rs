//! The plan of a simulation: plain data, so that it can be shrunk.

use std::fmt;
use std::time::Duration;

use super::controls::Control;
use crate::testing::check::Invariant;
use crate::testing::network::{KillPoint, MessageFaults};

/// Whether the simulated store loses what it has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLosses {
    /// It keeps its writes, and its clock never goes back: every invariant must hold.
    None,
    /// It is wiped, fails over to a replica that lags behind, and its clock is set back. What the promise excludes is counted.
    Lossy,
}

/// Everything that happens in a simulation, drawn from a seed before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) seed: u64,
    pub(super) losses: StoreLosses,
    pub(super) control: Option<Control>,
    /// The store's clock at the start: milliseconds after noon.
    pub(super) begins_after: Duration,
    /// Parts per million by which the store's clock is too fast for the servers' steady clocks.
    pub(super) store_drift: i64,
    pub(super) max_concurrent: Option<usize>,
    pub(super) shutdown_grace: Duration,
    pub(super) servers: Vec<ServerPlan>,
    pub(super) jobs: Vec<JobPlan>,
    pub(super) locks: Vec<LockPlan>,
    pub(super) faults: Vec<PlannedFault>,
    /// The time in which faults begin.
    pub(super) faults_for: Duration,
    /// The time after the last fault.
    pub(super) tail: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct ServerPlan {
    /// Milliseconds by which its clock is ahead of the store's.
    pub(super) clock_ahead: i64,
    /// Longest delay of a message.
    pub(super) delay: Duration,
    /// The number of a job that it does not have.
    pub(super) lacks: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct JobPlan {
    pub(super) key: String,
    /// The policy, and those of later deploys.
    pub(super) versions: Vec<JobVersion>,
    /// Whether its runs commit an effect together with their end.
    pub(super) commits: bool,
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of a job")]
pub(super) struct JobVersion {
    pub(super) every: &'static str,
    pub(super) ttl: Duration,
    pub(super) queues: bool,
    pub(super) runs_missed: bool,
    /// 0: the tick of a crashed run is over.
    pub(super) takeovers: u32,
    pub(super) retries: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) jitter: Option<Duration>,
    pub(super) grace: Option<Duration>,
    pub(super) keep_alive: bool,
    pub(super) continues_when_lost: bool,
    /// Percentages of runs that fail, and that panic.
    pub(super) fails: u64,
    pub(super) panics: u64,
}

#[derive(Clone, Debug)]
pub(super) struct LockPlan {
    pub(super) key: String,
    pub(super) kind: LockKind,
    pub(super) ttl: Duration,
    /// Longest time for which it is held, and between two uses on one server.
    pub(super) longest: Duration,
    pub(super) pause: Duration,
    /// Whether work that is done once commits an effect together with its end.
    pub(super) commits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    /// A guard that the caller releases.
    Guard,
    /// Code that runs under the lock.
    Run,
    Semaphore(u32),
    Leader,
    Once,
}

#[derive(Clone, Debug)]
pub(in crate::testing) struct PlannedFault {
    /// After the start of the simulation.
    pub(super) at: Duration,
    pub(super) action: FaultAction,
}

/// A fault. Servers are numbered by their place in the plan, keys by theirs: jobs first, then locks.
#[derive(Clone, Debug)]
pub(in crate::testing) enum FaultAction {
    Kill { server: usize, point: Option<KillPoint>, back_after: Duration },
    Stop { server: usize, lasts: Duration },
    BlockApplication { server: usize, lasts: Duration },
    CutOff { server: usize, lasts: Duration },
    BadNetwork { server: usize, messages: MessageFaults, lasts: Duration },
    ServerClock { server: usize, step: i64, drift: i64 },
    Deploy { server: usize, version: usize },
    StoreOutage { lasts: Duration },
    Wipe { key: Option<usize> },
    Failover { loses: Duration },
    StoreClock { step: i64 },
    ForeignLock { key: usize, expires: bool, lasts: Duration },
    ForeignDeletion { key: usize },
    Operator { server: usize, key: usize, call: OperatorCall },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::testing) enum OperatorCall {
    Pause { lasts: Duration },
    RunNow,
    Cancel,
    Break,
    Reset,
    Forget,
}

impl Plan {
    /// The seed that it was drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the store loses writes.
    pub fn losses(&self) -> StoreLosses {
        self.losses
    }

    /// The same plan with a mistake that the simulation must find.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.control = Some(control);
        if control.breaks() == Invariant::OneEffect { self } else { self.without_effects() }
    }

    /// The same plan, in which no run commits an effect.
    pub(super) fn without_effects(mut self) -> Self {
        self.jobs.iter_mut().for_each(|job| job.commits = false);
        self.locks.iter_mut().for_each(|lock| lock.commits = false);
        self
    }

    /// The virtual time that it takes, about.
    pub fn lasts(&self) -> Duration {
        self.faults_for + self.tail
    }

    /// Number of servers, jobs and locks, and faults.
    pub fn size(&self) -> (usize, usize, usize) {
        (self.servers.len(), self.jobs.len() + self.locks.len(), self.faults.len())
    }

    /// All keys: the jobs', then the locks'.
    pub(super) fn keys(&self) -> Vec<&str> {
        let jobs = self.jobs.iter().map(|job| job.key.as_str());
        jobs.chain(self.locks.iter().map(|lock| lock.key.as_str())).collect()
    }
}

/// One line for each part.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, losses, store_drift, max_concurrent, faults_for, tail, .. } = self;
        writeln!(f, "seed {seed}, store losses {losses:?}, control {:?}", self.control)?;
        writeln!(
            f,
            "  faults for {faults_for:?}, then {tail:?}; store drift {store_drift} ppm; {max_concurrent:?}"
        )?;
        for (number, server) in self.servers.iter().enumerate() {
            writeln!(f, "  server {number}: {server:?}")?;
        }
        for job in &self.jobs {
            writeln!(f, "  {job:?}")?;
        }
        for lock in &self.locks {
            writeln!(f, "  {lock:?}")?;
        }
        for PlannedFault { at, action } in &self.faults {
            writeln!(f, "  {at:>10.3?}: {action:?}")?;
        }
        Ok(())
    }
}
