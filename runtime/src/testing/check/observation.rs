//! What a harness writes down while a fleet runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The rules of one key, as far as the checks depend on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRules {
    /// How long a lease lasts without an extension.
    pub ttl: Duration,
    /// Number of holders at the same time: 1, or the permits of a semaphore.
    pub permits: usize,
    /// Number of runs of one tick beyond the first: 0 without `on_crash = "retry"`.
    pub takeovers: u32,
    /// Whether a run continues after it has lost its lease: `on_lost = "continue"`.
    pub continues_when_lost: bool,
}

impl KeyRules {
    /// Rules of a job or a lock with the default policy.
    pub fn with_ttl(ttl: Duration) -> Self {
        Self { ttl, permits: 1, takeovers: 0, continues_when_lost: false }
    }
}

/// Observations of a fleet, in the order of their instants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The rules of every key.
    pub keys: BTreeMap<String, KeyRules>,
    /// What was observed.
    pub observations: Vec<Observation>,
    /// How late servers may be without a fault: zero in virtual time, seconds on a busy machine. Only the checks that
    /// something happens at all depend on it.
    pub slack: Duration,
}

impl Trace {
    /// Adds an observation.
    pub fn add(&mut self, at: u64, server: &Arc<str>, what: Observed) {
        self.observations.push(Observation { at, server: server.clone(), what });
    }
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Microseconds of a clock that all observers share, and that never goes back.
    pub at: u64,
    /// The server that it is about; empty for the store and the harness.
    pub server: Arc<str>,
    /// What was observed.
    pub what: Observed,
}

/// One line: the instant in seconds, the server, and what was observed.
impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at / 1_000_000, self.at % 1_000_000);
        write!(f, "{seconds:>4}.{micros:06} {:<10} {}", self.server, self.what)
    }
}

impl Observed {
    /// Whether it is about this key, or about no key at all.
    pub fn is_about(&self, key: &str) -> bool {
        match self {
            Self::Began { lease, .. }
            | Self::Stepped(lease)
            | Self::Ended(lease)
            | Self::Wrote(lease)
            | Self::Overwrote(lease)
            | Self::Lost(lease)
            | Self::HeldAtEnd(lease)
            | Self::Committed { lease, .. }
            | Self::EndRecorded { lease, .. } => *lease.key == *key,
            Self::Due { key: other, .. }
            | Self::Explained { key: other, .. }
            | Self::Broken(other)
            | Self::MarkLowered { key: other, .. } => **other == *key,
            _ => true,
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = |f: &mut fmt::Formatter<'_>, what: &str, lease: &LeaseRef| {
            write!(f, "{what} {} fence {}", lease.key, lease.fence)
        };
        match self {
            Self::Began { lease, tick, attempt, retry, store_time } => {
                write!(f, "began {} fence {}", lease.key, lease.fence)?;
                if let Some(tick) = tick {
                    write!(f, " tick {tick}")?;
                }
                write!(f, " attempt {attempt} retry {retry} at {store_time}")
            }
            Self::Stepped(of) => lease(f, "stepped", of),
            Self::Ended(of) => lease(f, "ended", of),
            Self::Wrote(of) => lease(f, "wrote", of),
            Self::Overwrote(of) => lease(f, "OVERWROTE", of),
            Self::Lost(of) => lease(f, "lost", of),
            Self::HeldAtEnd(of) => lease(f, "HELD AT THE END", of),
            Self::Committed { lease: of, store_time, .. } => {
                lease(f, "committed", of)?;
                write!(f, " at {store_time}")
            }
            Self::EndRecorded { lease: of, is_committed } => {
                lease(f, if *is_committed { "recorded as committed" } else { "recorded as crashed" }, of)
            }
            Self::Broken(key) => write!(f, "broken {key}"),
            Self::MarkLowered { key, to } => write!(f, "mark of {key} lowered to {to}"),
            Self::Due { key, tick, .. } => write!(f, "due {key} {tick}"),
            Self::Explained { key, first, until, why } => {
                write!(f, "explained {key} {first} until {until}: {why}")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// The reason of an [explanation](Observed::Explained) that says that another lease held the key.
pub const HELD: &str = "held";

/// The lease under which a job's function, or the holder of a lock, works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRef {
    /// The key of the job or lock.
    pub key: Arc<str>,
    /// The fence of the lease.
    pub fence: i64,
}

/// What a harness observes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed {
    /// A server started.
    ServerStarted,
    /// A server that started does not have the job with this key.
    LacksJob(Arc<str>),
    /// A server ended, by a shutdown or by a kill. Its runs are over.
    ServerEnded,
    /// A job's function was called, or a lock was acquired.
    Began {
        /// The lease.
        lease: LeaseRef,
        /// The tick; `None` for a manual run or a lock.
        tick: Option<Timestamp>,
        /// 1 for the first run of the tick, 2 for the first takeover, and so on.
        attempt: u32,
        /// 0 for the first call under this lease, 1 for the first retry, and so on.
        retry: u32,
        /// The store's clock at the call.
        store_time: Timestamp,
    },
    /// The holder came back from an await, and works under its lease.
    Stepped(LeaseRef),
    /// The holder's future is gone, or its guard was dropped.
    Ended(LeaseRef),
    /// A resource that compares fences accepted a write.
    Wrote(LeaseRef),
    /// A swap of this server changed or removed a valid lease of another server, and no operator asked for it.
    Overwrote(LeaseRef),
    /// A holder was notified that it has lost its lease.
    Lost(LeaseRef),
    /// The store committed an effect of a run together with the mark that the run is [finished](crate::Run::finish).
    Committed {
        /// The lease.
        lease: LeaseRef,
        /// The tick; `None` for a manual run or a lock.
        tick: Option<Timestamp>,
        /// The store's clock at the commit.
        store_time: Timestamp,
        /// Of work that is done once: the instant until which it counts as done.
        done_until: Option<Timestamp>,
    },
    /// The store has a record of the end of a run.
    EndRecorded {
        /// The lease.
        lease: LeaseRef,
        /// Whether it is recorded as committed, or as succeeded after a call of [`Run::finish`](crate::Run::finish); or else as
        /// crashed.
        is_committed: bool,
    },
    /// An operator broke the lock of this key.
    Broken(Arc<str>),
    /// An operator reset a job whose mark was in the future: later ticks than this instant may start again.
    MarkLowered {
        /// The key of the job.
        key: Arc<str>,
        /// The new mark.
        to: Timestamp,
    },
    /// A tick is due by the store's clock. Written for every tick of every schedule.
    Due {
        /// The key of the job.
        key: Arc<str>,
        /// The tick.
        tick: Timestamp,
        /// The servers that claim it; `None` if all do that have the job.
        servers: Option<Vec<Arc<str>>>,
    },
    /// A server reported, or the store has a record, why ticks did not run: from `first` on, before `until`. The order of
    /// explanations among other observations does not matter.
    Explained {
        /// The key of the job.
        key: Arc<str>,
        /// The first tick that this explains.
        first: Timestamp,
        /// The instant after the last one.
        until: Timestamp,
        /// The reason: [`HELD`] if another lease held the key, or any other text.
        why: Arc<str>,
    },
    /// A fault begins. One that has no duration ends at once.
    FaultBegan(Fault),
    /// The newest fault of this kind on this server that has not ended yet ends.
    FaultEnded(Fault),
    /// All faults are over: from here on the fleet has to recover.
    Healed,
    /// At the end of the history a key is held by a server that has ended, for longer than its ttl.
    HeldAtEnd(LeaseRef),
    /// The end of the history.
    Finished,
}

/// What a harness does to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// The server is killed.
    Kill,
    /// The server's process is stopped; both of its clocks continue.
    Stop,
    /// The machine is suspended: the server's steady clock stands still.
    Suspend,
    /// The application's runtime polls nothing.
    BlockApplication,
    /// The server's requests do not reach the store.
    CutOff,
    /// Requests and replies of the server are delayed, lost, duplicated and reordered.
    BadNetwork,
    /// The server's clock is stepped, or drifts.
    ServerClock,
    /// The server is shut down, and another one takes its place.
    Deploy,
    /// The store does not answer.
    StoreOutage,
    /// The store loses acknowledged writes, by a wipe or a failover.
    StoreLosesWrites,
    /// The store's clock is stepped forward.
    StoreClockForward,
    /// The store's clock is stepped back.
    StoreClockBack,
    /// Another program sets or deletes the lock that programs share.
    ForeignLock,
    /// An operator pauses, resumes, cancels, breaks, resets or requests a run.
    Operator,
    /// Servers and store compete for processors or disks.
    Overload,
}
