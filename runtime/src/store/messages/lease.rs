use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Claim, RunOutcome, What, Won};

/// A lease as its holder knows it: enough to put it back into a store that lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The claim's token: proof of ownership.
    pub token: Arc<str>,
    /// The holder.
    pub server: Arc<str>,
    /// How long each extension lasts.
    pub ttl: Duration,
    /// What it is held for.
    pub kind: Kind,
    /// The tick it was claimed for; `None` for a claim by hand.
    pub tick: Option<Timestamp>,
    /// Which attempt at the tick this is.
    pub attempt: u32,
    /// How many attempts beyond the first the tick gets.
    pub takeovers: u32,
    /// The id of the request that it answers.
    pub request: Option<Arc<str>>,
    /// Orders the leases of a key.
    pub fence: i64,
    /// When it began, by the store's clock.
    pub since: Timestamp,
    /// When it ends unless extended, as far as the holder knows.
    pub until: Timestamp,
    /// How far the run is, as its function said last.
    pub progress: Option<Progress>,
    /// Missed ticks before this instant were reported by the holder.
    pub reported: Option<Timestamp>,
}

impl Lease {
    /// The lease that a claim has won.
    pub fn won(claim: Claim, won: &Won) -> Self {
        let kind = claim.what.kind();
        let (tick, request) = match claim.what {
            What::Tick(ask) => (Some(ask.tick), None),
            What::Requested(id) => (None, Some(id)),
            _ => (None, None),
        };
        let Claim { token, server, ttl, .. } = claim;
        let Won { fence, attempt, takeovers, since, until, .. } = *won;
        let (progress, reported) = (None, None);
        Self {
            token,
            server,
            ttl,
            kind,
            tick,
            attempt,
            takeovers,
            request,
            fence,
            since,
            until,
            progress,
            reported,
        }
    }
}

/// What a lease is held for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A run of a job.
    #[default]
    Run,
    /// A lock by hand.
    Lock,
    /// Work that is done once.
    Once,
    /// To lead a group.
    Leader,
    /// One slot of a key, …
    Slot {
        /// … which has so many.
        of: u32,
    },
}

impl Kind {
    /// The kind in one lower-case word, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Lock => "lock",
            Self::Once => "once",
            Self::Leader => "leader",
            Self::Slot { .. } => "slot",
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// So much is done …
    pub done: u64,
    /// … of so much; 0 if that is not known.
    pub total: u64,
    /// What it is doing, in words.
    pub status: String,
}

/// The store's answer to an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendReply {
    /// The lease lasts until this instant of the store's clock.
    Kept {
        /// The new expiry.
        until: Timestamp,
        /// The server of an operator who wants the run cancelled.
        cancelled_by: Option<Arc<str>>,
    },
    /// The store had lost the lease, and it was restored until this instant.
    Restored(Timestamp),
    /// The lease is over. This is final.
    Lost {
        /// The server of the operator who broke it, if that is how it ended.
        broken_by: Option<Arc<str>>,
    },
}

/// How a run ended, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// In one word.
    pub outcome: RunOutcome,
    /// The error's text, if there was one; already cut to a bounded length.
    pub error: Option<String>,
    /// The tries before the last one, oldest first; only so many are kept.
    pub failed_tries: Vec<FailedTry>,
    /// How many runs the store keeps on record.
    pub remember: usize,
    /// Marks the key's work as done for this long, in the same step.
    pub done_for: Option<Duration>,
}

impl Ending {
    /// Of a lease under which nothing was started.
    pub(crate) fn not_started(remember: usize) -> Self {
        Self::of(RunOutcome::NotStarted, remember)
    }

    /// An ending with nothing more to say.
    pub const fn of(outcome: RunOutcome, remember: usize) -> Self {
        Self { outcome, error: None, failed_tries: Vec::new(), remember, done_for: None }
    }
}

/// A try that failed, and was repeated under the same lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
    /// 1 for the first.
    pub number: u32,
    /// When it failed, by the store's clock as its server knew it.
    pub at: Timestamp,
    /// The error's text.
    pub error: String,
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
