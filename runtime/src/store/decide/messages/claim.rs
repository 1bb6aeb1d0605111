use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::{Missed, Overlap, Timestamp};

use super::{Lease, LeaseKind, SkipRecord};

/// A request to become the holder of a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Unguessable, and the same through every retry of this claim.
    pub token: Arc<str>,
    /// Who asks.
    pub server: Arc<str>,
    /// How long the lease lasts without an extension.
    pub ttl: Duration,
    /// What for.
    pub what: ClaimPurpose,
    /// How many runs, and how many skips, the store keeps on record.
    pub remember: usize,
}

/// What a claim is for.
#[derive(Clone, Debug)]
pub enum ClaimPurpose {
    /// One tick of a schedule.
    Tick(TickClaim),
    /// Now, by hand: consumes no tick, and a paused job can still be run this way.
    Now,
    /// The same, on behalf of a server that left the [request](super::RunRequest) with this id, because it
    /// does not have the job.
    Requested(Arc<str>),
    /// A lock by hand. What the store knows of such a key goes away by itself, unless a job has it, too.
    Lock,
    /// The same, for work that is done once: refused while it is marked as done.
    Once,
    /// The same, for the leader of a group.
    Leader,
    /// One of so many slots of the key. They have nothing to do with its lock.
    Slot(u32),
}

impl ClaimPurpose {
    /// What the lease is held for.
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

/// The tick a claim is for, and the part of the job's policy that decides the claim.
#[derive(Clone, Debug)]
pub struct TickClaim {
    /// The scheduled instant.
    pub tick: Timestamp,
    /// The scheduled instant before it; `None` if there is none, or for a takeover.
    pub previous: Option<Timestamp>,
    /// How long after its tick the job starts.
    pub delay: Duration,
    /// How late it may still start.
    pub grace: Duration,
    /// The claim is to finish what another server has started: a tick that the store does not know is not started.
    pub only_takes_over: bool,
    /// What happens when the key is held.
    pub overlap: Overlap,
    /// How many attempts beyond the first an unfinished tick gets.
    pub takeovers: u32,
    /// Whether it may start after its grace, if nobody could start it before.
    pub missed: Missed,
    /// The schedule that the tick comes from, as text.
    pub schedule: Arc<str>,
    /// For how long the asking server has been scheduling the job.
    pub known_for: Duration,
}

/// The store's answer to a claim, and what it says about the job beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimAnswer {
    /// The answer itself.
    pub decision: ClaimReply,
    /// With takeovers allowed: a tick that may have to be taken over.
    pub unfinished: Option<UnfinishedTick>,
    /// The schedule that another server had registered, if it differs from the asking server's.
    pub other_schedule: Option<RegisteredSchedule>,
}

impl From<ClaimReply> for ClaimAnswer {
    fn from(decision: ClaimReply) -> Self {
        Self { decision, unfinished: None, other_schedule: None }
    }
}

/// A tick that was started last and has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedTick {
    /// Which one.
    pub tick: Timestamp,
    /// How long the key stays held unless extended: zero if it is free, `None` if nobody knows or the job is
    /// paused.
    pub remaining: Option<Duration>,
}

/// The schedule that a job was registered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredSchedule {
    /// As text.
    pub schedule: String,
    /// When, or when the job was last resumed, by the store's clock. No tick before it is run late.
    pub at: Timestamp,
    /// The server whose claim registered it.
    pub server: String,
    /// When that server began to schedule it, by the store's clock: newer servers replace it.
    pub begun: Timestamp,
    /// When a tick was last won with it: any server replaces one that nobody follows any more.
    pub used: Timestamp,
    /// Since when missed ticks are run once, if they are: one that was missed before stays missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_missed_since: Option<Timestamp>,
}

/// Ticks that no server ran or skipped: those after `after` and before `before`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last instant before them that was decided, or at which the job was registered.
    pub after: Timestamp,
    /// The tick that was decided next, or the instant at which the schedule changed.
    pub before: Timestamp,
    /// The schedule at that time, as text, if it may be another one by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
}

/// The store's answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimReply {
    /// The caller holds the key. A repeated claim that had won is told so again.
    Won(WonClaim),
    /// The caller had won with this token, and that lease is over.
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
    Paused,
    /// The tick is older than its grace.
    Late(Duration),
    /// Somebody holds the key. With [`Overlap::Skip`], and within its grace, the tick is skipped for all
    /// servers. Of slots: all are held, and this is the one that ends first.
    Held(Holder),
    /// No such request waits: it was answered, it expired, or it never was.
    NotRequested,
    /// The work was done already, at this instant.
    Done(Timestamp),
}

/// A lease that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WonClaim {
    /// The lease.
    pub lease: Lease,
    /// Ticks before this one that no server ran, skipped, or reported as missed. Only for a claim of a tick.
    pub missed: Vec<Gap>,
    /// The mean duration of the job's successful runs, if there are enough to tell.
    pub usual: Option<Duration>,
}

/// What became of a tick that is decided already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A server started it.
    Started {
        /// Which one.
        server: String,
        /// When it claimed the tick.
        since: Timestamp,
        /// Whether the run ended by itself; `false` while it goes on, and after a crash.
        finished: bool,
    },
    /// It was skipped for all servers.
    Skipped(SkipRecord),
}

/// Who holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The server's [id](crate::Jobs::server); unknown if another program holds the lock.
    pub server: Option<String>,
    /// Since when, if known.
    pub since: Option<Timestamp>,
    /// How long the lock lasts unless extended, if it expires at all.
    pub remaining: Option<Duration>,
}
