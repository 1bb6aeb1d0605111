use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::{Overlap, Timestamp};

/// A request to become the holder of a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Unguessable, and the same through every retry of this claim.
    pub token: String,
    /// Who asks.
    pub server: String,
    /// How long the lease lasts without an extension.
    pub ttl: Duration,
    /// What for.
    pub what: What,
}

/// What a claim is for.
#[derive(Clone, Debug)]
pub enum What {
    /// One tick of a schedule.
    Tick(TickClaim),
    /// Now, by hand: consumes no tick, and a paused job can still be run this way.
    Now,
}

/// The tick a claim is for, and the part of the job's policy that decides the claim.
#[derive(Clone, Debug)]
pub struct TickClaim {
    /// The scheduled instant.
    pub tick: Timestamp,
    /// How long after its tick the job starts.
    pub delay: Duration,
    /// How late it may still start.
    pub grace: Duration,
    /// What happens when the key is held.
    pub overlap: Overlap,
    /// How many attempts beyond the first an unfinished tick gets.
    pub takeovers: u32,
}

/// The store's answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimReply {
    /// The caller holds the key. A repeated claim that had won is told so again.
    Won(Won),
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
    /// The job is paused; the tick is skipped for all servers.
    Paused,
    /// The tick is older than its grace.
    Late(Duration),
    /// Somebody holds the key. With [`Overlap::Skip`] the tick is skipped for all servers.
    Held(Holder),
}

/// A lease that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Won {
    /// Greater than that of every earlier lease of the key.
    pub fence: i64,
    /// 1 for a tick's first run, 2 for the first takeover, and so on.
    pub attempt: u32,
    /// When the lease began, by the store's clock.
    pub since: Timestamp,
    /// When it ends unless extended, by the store's clock.
    pub until: Timestamp,
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
    /// The server; unknown if another program holds the lock.
    pub server: Option<String>,
    /// Since when, if known.
    pub since: Option<Timestamp>,
    /// How long the lock lasts unless extended, if it expires at all.
    pub remaining: Option<Duration>,
}

/// A lease as its holder knows it: enough to put it back into a store that lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The claim's token: proof of ownership.
    pub token: String,
    /// The holder.
    pub server: String,
    /// How long each extension lasts.
    pub ttl: Duration,
    /// The tick it was claimed for; `None` for a claim by hand.
    pub tick: Option<Timestamp>,
    /// Which attempt at the tick this is.
    pub attempt: u32,
    /// Orders the leases of a key.
    pub fence: i64,
    /// When it began, by the store's clock.
    pub since: Timestamp,
    /// When it ends unless extended, as far as the holder knows.
    pub until: Timestamp,
}

/// The store's answer to an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendReply {
    /// The lease lasts until this instant of the store's clock.
    Kept(Timestamp),
    /// The store had lost the lease, and it was put back.
    Restored(Timestamp),
    /// The lease is over. This is final.
    Lost,
}

/// How a run ended, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// In one word.
    pub outcome: RunOutcome,
    /// The error's text, if there was one; already cut to a bounded length.
    pub error: Option<String>,
}

/// The store's answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReply {
    /// The lease ended and its run is on record.
    Released,
    /// The store had lost the lease; its end was put back, and its run is on record.
    Restored,
    /// The lease had ended before, by release or by a successor; nothing was recorded.
    NotHeld,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunOutcome {
    /// It returned without an error.
    Succeeded,
    /// It returned an error.
    Failed,
    /// It took longer than its timeout.
    TimedOut,
    /// It panicked.
    Panicked,
    /// It was cancelled by a shutdown.
    Cancelled,
    /// Its lease could not be proved any longer, so it was cancelled.
    LeaseLost,
    /// Its server never said how it ended; found by the next claim.
    Crashed,
    /// It was claimed and given back before it started.
    NotStarted,
}

impl RunOutcome {
    /// Whether the tick is done with. An unfinished tick may be taken over.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::TimedOut | Self::Panicked)
    }

    /// The outcome in one lower-case word, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
            Self::LeaseLost => "lease_lost",
            Self::Crashed => "crashed",
            Self::NotStarted => "not_started",
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One run of a job, as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The tick it ran for; `None` for a run by hand.
    pub tick: Option<Timestamp>,
    /// Where it ran.
    pub server: String,
    /// The fence of its lease.
    pub fence: i64,
    /// Which attempt at the tick it was.
    pub attempt: u32,
    /// When it was claimed, by the store's clock.
    pub started: Timestamp,
    /// When it was released, or found crashed, by the store's clock.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The error's text, if there was one.
    pub error: Option<String>,
}

/// One tick that was skipped for all servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRecord {
    /// The tick.
    pub tick: Timestamp,
    /// Why.
    pub reason: Skip,
    /// The server whose claim decided it.
    pub server: String,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// Why a tick was skipped for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Skip {
    /// The last run, or another program's lock, was still there.
    Held,
    /// The job was paused.
    Paused,
}

/// What a store remembers of a job, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The newest runs.
    pub runs: Vec<RunRecord>,
    /// The newest skips.
    pub skips: Vec<SkipRecord>,
}
