use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Claim, ClaimPurpose, Holder, RunOutcome};
use crate::store::decide::UNKNOWN_FENCE;
use crate::store::key_state::{as_micros, first, is_default, is_first};

/// A lease: as a record keeps it, and as its holder knows it, who can put it back into a store that lost it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The claim's token: proof of ownership.
    pub token: Arc<str>,
    /// The holder.
    pub server: Arc<str>,
    /// What it is held for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: LeaseKind,
    /// The tick it was claimed for; `None` for a manual claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Timestamp>,
    /// 1 for a tick's first run, 2 for the first takeover, and so on.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// How many attempts beyond the first the tick gets, by the policy under which it was first started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
    /// The id of the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// Greater than that of every earlier lease of the key. 0 in a record, of its newest lease: that has the record's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// When it began, by the store's clock.
    pub since: Timestamp,
    /// When it ends unless extended, by the store's clock, as far as is known.
    pub until: Timestamp,
    /// How long each extension lasts.
    #[serde(with = "as_micros")]
    pub ttl: Duration,
    /// How far the run is, as its function said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Missed ticks before this instant were reported by the holder. Not kept in records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Timestamp>,
}

impl Lease {
    /// The lease that a claim wins. Its fence is the store's to compute.
    pub fn claimed(claim: &Claim, since: Timestamp, until: Timestamp) -> Self {
        let (tick, takeovers, request) = match &claim.what {
            ClaimPurpose::Tick(ask) => (Some(ask.tick), ask.takeovers, None),
            ClaimPurpose::Requested(id) => (None, 0, Some(id.clone())),
            _ => (None, 0, None),
        };
        Self {
            token: claim.token.clone(),
            server: claim.server.clone(),
            kind: claim.what.kind(),
            tick,
            attempt: 1,
            takeovers,
            request,
            fence: UNKNOWN_FENCE,
            since,
            until,
            // As it is stored.
            ttl: Duration::from_micros(as_micros::of(claim.ttl)),
            progress: None,
            reported: None,
        }
    }

    /// What others see of it.
    pub(crate) fn holder(&self, now: Timestamp) -> Holder {
        let remaining = Some(self.until.since(now));
        Holder { server: Some(self.server.to_string()), since: Some(self.since), remaining }
    }
}

/// What a lease is held for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseKind {
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

impl LeaseKind {
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
