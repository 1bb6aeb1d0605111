use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::{Claim, ClaimPurpose, Holder, RunOutcome, Trigger};
use crate::store::decide::UNKNOWN_FENCE;
use crate::store::record::key_state::{as_micros, first, is_default, is_first};

/// A lease, as a record keeps it and as its holder knows it. The holder can restore it in a store that lost it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The claim's token: proof of ownership.
    pub token: Arc<str>,
    /// The holder.
    pub server: Arc<str>,
    /// The kind of the lease.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: LeaseKind,
    /// The tick it was claimed for; `None` for a manual claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Timestamp>,
    /// 1 for a tick's first run, 2 for the first takeover, and so on.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Number of attempts beyond the first, by the policy under which the tick was first started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
    /// The id of the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// What caused the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trigger: Trigger,
    /// What the run's record says about it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: RunDetails,
    /// Greater than the fence of every earlier lease of the key. 0 for the newest lease in a record: its fence is the record's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// Instant at which it began, by the store's clock.
    pub since: Timestamp,
    /// Instant at which it expires unless extended, by the store's clock, as far as is known.
    pub until: Timestamp,
    /// Duration of each extension.
    #[serde(with = "as_micros")]
    pub ttl: Duration,
    /// The last progress that the run reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Missed ticks before this instant were reported by the holder. Not kept in records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Timestamp>,
}

impl Lease {
    /// Creates the lease that a claim wins. The store computes its fence.
    pub fn claimed(claim: &Claim, since: Timestamp, until: Timestamp) -> Self {
        let (tick, takeovers, request) = match &claim.what {
            ClaimPurpose::Tick(ask) => (Some(ask.tick), ask.takeovers, None),
            ClaimPurpose::Requested(id) => (None, 0, Some(id.clone())),
            _ => (None, 0, None),
        };
        let trigger = match claim.what {
            ClaimPurpose::Now | ClaimPurpose::Requested(_) => Trigger::Manual,
            _ => Trigger::Schedule,
        };
        Self {
            token: claim.token.clone(),
            server: claim.server.clone(),
            kind: claim.what.kind(),
            tick,
            attempt: 1,
            takeovers,
            request,
            trigger,
            details: claim.details.clone(),
            fence: UNKNOWN_FENCE,
            since,
            until,
            // As it is stored.
            ttl: Duration::from_micros(as_micros::of(claim.ttl)),
            progress: None,
            reported: None,
        }
    }

    /// The holder, as other servers see it.
    pub(crate) fn holder(&self, now: Timestamp) -> Holder {
        let remaining = Some(self.until.since(now));
        Holder { server: Some(self.server.to_string()), since: Some(self.since), remaining }
    }
}

/// What a server states about a run when it claims it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDetails {
    /// Who asked for a manual run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The version of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<Arc<str>>,
    /// Number of failures in a row after which the job is paused; 0 for never.
    #[serde(skip_serializing_if = "is_default")]
    pub pause_after: u32,
}

/// The kind of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseKind {
    /// A run of a job.
    #[default]
    Run,
    /// A manual lock.
    Lock,
    /// A manual lock for work that is done once.
    Once,
    /// A manual lock for the leader of a group.
    Leader,
    /// One slot of a key.
    Slot {
        /// The number of slots.
        of: u32,
    },
}

impl LeaseKind {
    /// Returns the kind as one lower-case word, as it is stored.
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

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units of work that are done.
    pub done: u64,
    /// Units of work in all; 0 if that is not known.
    pub total: u64,
    /// A description of what it is doing.
    pub status: String,
}

/// The decision about an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendReply {
    /// The lease lasts until this instant of the store's clock.
    Kept {
        /// The new expiry.
        until: Timestamp,
        /// The server of the operator who asked for the run to be cancelled.
        cancelled_by: Option<Arc<str>>,
    },
    /// The store had lost the lease, and it was restored until this instant.
    Restored(Timestamp),
    /// The lease is over. This is final.
    Lost {
        /// The server of the operator who broke it, if one did.
        broken_by: Option<Arc<str>>,
    },
}

/// The end of a run, for its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The outcome.
    pub outcome: RunOutcome,
    /// The error's text, cut to a bounded length.
    pub error: Option<String>,
    /// The failed tries before the last one, oldest first.
    pub failed_tries: Vec<FailedTry>,
    /// The end of its log, if one was collected.
    pub log: Option<String>,
    /// Number of run records that the store keeps.
    pub remember: usize,
    /// Marks the key's work as done for this long, in the same step.
    pub done_for: Option<Duration>,
    /// Whether the run was finished in a transaction of the application, which may not have been committed.
    pub finish_called: bool,
}

impl Ending {
    /// Creates an ending without an error.
    pub const fn of(outcome: RunOutcome, remember: usize) -> Self {
        Self {
            outcome,
            error: None,
            failed_tries: Vec::new(),
            log: None,
            remember,
            done_for: None,
            finish_called: false,
        }
    }

    /// Returns the end of a run that was finished in a transaction: whether that was committed counts, not what the function
    /// returned.
    #[must_use]
    pub fn settled(self, is_committed: bool) -> Self {
        let has_succeeded = self.outcome == RunOutcome::Succeeded;
        match (is_committed, has_succeeded) {
            (true, false) => Self { outcome: RunOutcome::Committed, ..self },
            (false, true) => {
                Self { outcome: RunOutcome::Failed, error: Some(NOT_COMMITTED.to_owned()), ..self }
            }
            _ => self,
        }
    }
}

/// The error of a run that returned without one.
const NOT_COMMITTED: &str =
    "the run was finished in a transaction that is not committed; commit it before the function returns";

/// A try that failed, and was repeated under the same lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
    /// 1 for the first.
    pub number: u32,
    /// Instant of the failure, by the server's estimate of the store's clock.
    pub at: Timestamp,
    /// The error's text.
    pub error: String,
}

/// The decision about a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReply {
    /// The lease ended and its run is on record.
    Released,
    /// The store had lost the lease; its end was restored, and its run is on record.
    Restored,
    /// The lease had ended before, by release or by a successor; nothing was recorded.
    NotHeld,
}
