use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::{Missed, Overlap, Timestamp};

use super::{Lease, LeaseKind, Pause, RunDetails, SkipRecord};

/// A request to become the holder of a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Unguessable, and the same through every retry of this claim.
    pub token: Arc<str>,
    /// The server that asks.
    pub server: Arc<str>,
    /// Duration of the lease without an extension.
    pub ttl: Duration,
    /// The purpose of the lease.
    pub what: ClaimPurpose,
    /// Number of run records, and of skip records, that the store keeps.
    pub remember: usize,
    /// What the lease and the run's record say about the run.
    pub details: RunDetails,
}

/// The purpose of a claim.
#[derive(Clone, Debug)]
pub enum ClaimPurpose {
    /// One tick of a schedule.
    Tick(TickClaim),
    /// A manual run: uses no tick, and is allowed for a paused job.
    Now,
    /// A manual run for the [request](super::RunRequest) with this id, by a server that does not have the job.
    Requested(Arc<str>),
    /// A manual lock. Its record expires, unless a job has the same key.
    Lock,
    /// A manual lock for work that is done once: refused while the work is marked as done.
    Once,
    /// A manual lock for the leader of a group.
    Leader,
    /// One of this number of slots of the key. Slots are independent of the key's lock.
    Slot(u32),
}

impl ClaimPurpose {
    /// The kind of the lease.
    pub fn kind(&self) -> LeaseKind {
        match self {
            Self::Tick(_) | Self::Now | Self::Requested(_) => LeaseKind::Run,
            Self::Lock => LeaseKind::Lock,
            Self::Once => LeaseKind::Once,
            Self::Leader => LeaseKind::Leader,
            Self::Slot(of) => LeaseKind::Slot { of: *of },
        }
    }
}

/// The claim of a tick: the tick, and the part of the job's policy that decides the claim.
#[derive(Clone, Debug)]
pub struct TickClaim {
    /// The scheduled instant.
    pub tick: Timestamp,
    /// The scheduled instant before it; `None` if there is none, or for a takeover.
    pub previous: Option<Timestamp>,
    /// Delay of the start after the tick.
    pub delay: Duration,
    /// Longest delay of the start beyond that.
    pub grace: Duration,
    /// Whether the claim only takes over what another server has started: a tick that the store does not know is not started.
    pub only_takes_over: bool,
    /// The policy for a key that is held.
    pub overlap: Overlap,
    /// Number of attempts beyond the first for an unfinished tick.
    pub takeovers: u32,
    /// The policy for a tick that no server started within its grace.
    pub missed: Missed,
    /// The schedule that the tick comes from, as text.
    pub schedule: Arc<str>,
    /// Time since the asking server began to schedule the job.
    pub known_for: Duration,
}

/// The decision about a claim, and what else the record shows about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReply {
    /// The decision.
    pub decision: ClaimDecision,
    /// A tick that may have to be taken over, if takeovers are allowed.
    pub unfinished: Option<UnfinishedTick>,
    /// The schedule that another server had registered, if it differs from the asking server's.
    pub other_schedule: Option<RegisteredSchedule>,
}

impl From<ClaimDecision> for ClaimReply {
    fn from(decision: ClaimDecision) -> Self {
        Self { decision, unfinished: None, other_schedule: None }
    }
}

/// The tick that was started last, if it has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedTick {
    /// The tick.
    pub tick: Timestamp,
    /// Time until the key becomes free unless its lease is extended: zero if it is free, `None` if that is unknown or the
    /// job is paused.
    pub remaining: Option<Duration>,
}

/// The schedule that a job was registered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredSchedule {
    /// The schedule as text.
    pub schedule: Arc<str>,
    /// Instant of the registration, or of the last resumption, by the store's clock. No earlier tick is run late.
    pub at: Timestamp,
    /// The server whose claim registered it.
    pub server: Arc<str>,
    /// Instant at which that server began to schedule it, by the store's clock: newer servers replace it.
    pub begun: Timestamp,
    /// Instant at which a tick was last won with it. Any server replaces a schedule that no server follows any more.
    pub used: Timestamp,
    /// Instant since which missed ticks are run once; `None` if they are not. Ticks that were missed before stay missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_missed_since: Option<Timestamp>,
}

/// Ticks that no server ran or skipped: all after `after` and before `before`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last instant before them that was decided, or at which the job was registered.
    pub after: Timestamp,
    /// The tick that was decided next, or the instant at which the schedule changed.
    pub before: Timestamp,
    /// Their schedule, as text; that of the server which reports them if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Arc<str>>,
}

/// The decision about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimDecision {
    /// The caller holds the key. A repeated claim that had won gets this reply again.
    Won(WonClaim),
    /// The caller had won with this token, and its lease is over.
    Lost,
    /// The tick is not due for this long.
    Early(Duration),
    /// This tick was claimed or skipped already.
    Taken(Taken),
    /// A newer tick was claimed or skipped already.
    Superseded(Timestamp),
    /// A tick in the future of the store's clock was claimed: the clock has gone back since.
    Ahead(Timestamp),
    /// The tick lies before the job was known, to the asking server and to the store.
    Unregistered,
    /// The job is paused; the tick is skipped for all servers.
    Paused(Pause),
    /// The tick is older than its grace.
    Late(Duration),
    /// The key is held. With [`Overlap::Skip`], and within its grace, the tick is skipped for all servers. Of slots: all are
    /// held, and this is the one that expires first.
    Held(Holder),
    /// There is no open request with this id: it was answered, it expired, or it never existed.
    NotRequested,
    /// The work was done, at this instant.
    Done(Timestamp),
}

/// A lease that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WonClaim {
    /// The lease.
    pub lease: Lease,
    /// Ticks before this one that no server ran, skipped, or reported as missed. Only for a claim of a tick.
    pub missed: Vec<Gap>,
    /// Mean duration of the job's successful runs, if there were at least three.
    pub usual: Option<Duration>,
}

/// How a tick was decided before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A server started it.
    Started {
        /// The id of the server.
        server: String,
        /// Instant of its claim.
        since: Timestamp,
        /// Whether the run ended by itself; `false` while it is in progress, and after a crash.
        finished: bool,
    },
    /// It was skipped for all servers.
    Skipped(SkipRecord),
}

/// The holder of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The server's [id](crate::Jobs::server_id); unknown if another program holds the lock.
    pub server: Option<String>,
    /// Instant since which the key is held, if known.
    pub since: Option<Timestamp>,
    /// Time until the lock expires unless it is extended; `None` if it never expires.
    pub remaining: Option<Duration>,
}
