//! Looks, swaps and records in small: `Copy`, hashable, without what no decision reads.
//!
//! [`real`](crate::real) converts them to the crate's own types and back.

/// An instant or a duration in microseconds. The clock of a model starts a few seconds after zero.
pub type Micros = i32;

/// The token of a claim. Tokens are only compared, so the tokens of a state are numbered from 1.
pub type Token = u8;

/// No token.
pub const NO_TOKEN: Token = 0;

/// The token of another program on the shared lock.
pub const FOREIGN: Token = 255;

/// A fence, in microseconds as the store computes it, or a rank where only the order matters.
pub type Fence = i32;

/// The number of a version. Versions are only compared, so those of a state are numbered from 1.
pub type VersionNumber = u8;

/// The version of "no record".
pub const NO_RECORD: VersionNumber = 0;

/// A version that the store will never have again.
pub const GONE: VersionNumber = 254;

/// The version of a write that was just made.
pub const FRESH: VersionNumber = 255;

/// The number of a tick, from 1. No tick: a manual claim.
pub type Tick = u8;

/// No tick.
pub const NO_TICK: Tick = 0;

/// A lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallLease {
    pub token: Token,
    pub tick: Tick,
    pub attempt: u8,
    pub takeovers: u8,
    pub fence: Fence,
    pub until: Micros,
}

/// The tick that was started last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallStart {
    pub tick: Tick,
    pub attempt: u8,
    pub takeovers: u8,
    pub finished: bool,
}

/// The high-water mark of a job's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallMark {
    pub tick: Tick,
    pub skipped: bool,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallState {
    pub claimant: Option<SmallLease>,
    pub released: bool,
    pub broken: bool,
    pub started: Option<SmallStart>,
    pub mark: Option<SmallMark>,
    pub paused: bool,
    pub registered: Option<Micros>,
    pub broken_until: Option<Micros>,
    pub expires: Option<Micros>,
}

impl SmallState {
    /// The lease that holds the key.
    pub fn holder(&self, now: Micros) -> Option<SmallLease> {
        self.claimant.filter(|lease| !self.released && lease.until > now)
    }

    /// The number of the mark's tick.
    pub fn marked(&self) -> Tick {
        self.mark.map_or(NO_TICK, |mark| mark.tick)
    }

    /// The number of the tick that was started last.
    pub fn last_started(&self) -> Tick {
        self.started.map_or(NO_TICK, |started| started.tick)
    }

    pub fn finished(&self) -> bool {
        self.started.is_some_and(|started| started.finished)
    }
}

/// The newest lease, as transactions of the application see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallFencedLease {
    /// None if it was ended by another one than its holder.
    pub token: Token,
    pub fence: Fence,
    /// Whether a transaction has committed its work.
    pub finished: bool,
}

/// The record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallRecord {
    pub version: VersionNumber,
    pub fence: Fence,
    pub state: SmallState,
    /// Only where runs are finished in transactions.
    pub lease: Option<SmallFencedLease>,
}

impl SmallRecord {
    /// Whether a transaction has committed the work of the newest lease.
    pub fn finished(&self) -> bool {
        self.lease.is_some_and(|lease| lease.finished)
    }
}

/// The lock that other programs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallLock {
    pub token: Token,
    pub until: Micros,
}

/// All that a store has of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Contents {
    pub record: Option<SmallRecord>,
    pub lock: Option<SmallLock>,
}

impl Contents {
    pub fn version(&self) -> VersionNumber {
        self.record.map_or(NO_RECORD, |record| record.version)
    }

    pub fn fence(&self) -> Fence {
        self.record.map_or(0, |record| record.fence)
    }

    /// Whether a transaction has committed the work of the newest lease.
    pub fn finished(&self) -> bool {
        self.record.is_some_and(|record| record.finished())
    }

    pub fn state(&self) -> SmallState {
        self.record.map_or_else(SmallState::default, |record| record.state)
    }

    /// The lock, unless it has expired.
    pub fn live_lock(&self, now: Micros) -> Option<SmallLock> {
        self.lock.filter(|lock| lock.until > now)
    }

    /// Whether another program holds the lock.
    pub fn foreign(&self, now: Micros) -> bool {
        self.live_lock(now).is_some_and(|lock| lock.token == FOREIGN)
    }

    pub fn look(&self, now: Micros) -> SmallLook {
        SmallLook { now, record: self.record, lock: self.live_lock(now) }
    }
}

/// A look at the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallLook {
    pub now: Micros,
    pub record: Option<SmallRecord>,
    pub lock: Option<SmallLock>,
}

/// The change of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmallFence {
    Keep,
    Next,
    AtLeast(Fence),
}

/// The change of the shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmallLockChange {
    Leave,
    Delete,
    Set(SmallLock),
}

/// No lower limit in time.
pub const ANY_TIME: Micros = Micros::MIN;

/// No upper limit in time.
pub const NEVER: Micros = Micros::MAX;

/// The change that a swap writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallChange {
    pub not_before: Micros,
    pub not_after: Micros,
    pub state: Option<SmallState>,
    pub fence: SmallFence,
    pub lock: SmallLockChange,
    /// The record of a run that it appends.
    pub records: Option<Recorded>,
    /// Whether it ends the newest lease for transactions, and then whether the decision has seen that its work is committed.
    pub ends_lease: Option<bool>,
}

/// The outcome of a run on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recorded {
    Succeeded,
    Committed,
    Other,
}

/// A swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallSwap {
    pub expected: VersionNumber,
    pub expected_lock: Token,
    pub change: SmallChange,
}

impl SmallSwap {
    /// The swap of a change that was decided on a look.
    pub fn of(look: &SmallLook, change: SmallChange) -> Self {
        Self {
            expected: look.record.map_or(NO_RECORD, |record| record.version),
            expected_lock: look.lock.map_or(NO_TOKEN, |lock| lock.token),
            change,
        }
    }
}

/// A message to decide on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    Claim(Ask),
    Extend(SmallLease),
    /// With whether the run was finished in a transaction.
    Release(SmallLease, End, bool),
    /// An operator breaks the lease with this fence, or the shared lock with this token.
    Break(Fence, Token),
    SetPaused(bool),
}

/// A claim: its token, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ask {
    pub token: Token,
    pub tick: Tick,
    pub only_takes_over: bool,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    Succeeded,
    LeaseLost,
    NotStarted,
}

/// A decision's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    Won(SmallLease),
    /// The caller had won, and its lease is over.
    WasLost,
    Early,
    Taken,
    Superseded,
    Ahead,
    Late,
    Paused,
    Held,
    Kept(Micros),
    Restored(Micros),
    Lost,
    Released,
    ReleaseRestored,
    NotHeld,
    Operated,
}

/// A decision: the reply, and the change that makes it true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallDecision {
    pub answer: Answer,
    pub change: Option<SmallChange>,
}
