//! Broken rules, each of which the model must catch: changes to the client of the model, or to what the crate's functions
//! are asked and answer. The crate's own code stays as it is.

mod decisions;

use crate::protocol::Protocol;
use crate::small::Micros;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// The swap does not compare the version.
    VersionNotCompared,
    /// Versions count from 1, also after a wipe.
    VersionIsCounter,
    /// The swap does not compare the lock's token.
    LockNotCompared,
    /// A refused swap is sent again as it was, with the version and the lock of the answer.
    DecisionReused,
    /// The same, only for a decision that was made without a look.
    CachedDecisionReused,
    /// The fence of a new lease is computed from the look.
    FenceFromLook,
    /// The fence of a new lease is the stored one + 1.
    FenceIsCounter,
    /// A claim is applied although the store's clock is before its look.
    ClaimWithoutNotBefore,
    /// A claim is applied however late.
    ClaimWithoutNotAfter,
    /// A claim is limited by the response timeout, but not by the grace.
    ClaimNotLimitedByGrace,
    /// An extension is applied however late.
    ExtensionWithoutNotAfter,
    /// An extension is applied although the store's clock is before its look.
    ExtensionWithoutNotBefore,
    /// The expiry of a lease is computed by a server's clock, which is a second fast.
    UntilByFastClock,
    /// The local deadline is a ttl after the swap was sent, however late it was applied.
    DeadlineFromTtl,
    /// The local deadline counts from the arrival of the answer.
    DeadlineFromArrival,
    /// A win starts the job however late it arrives.
    LateWinStarts,
    /// An extension counts as soon as it was sent.
    UnansweredExtensionCounts,
    /// A process that continues polls the job before it checks the deadline.
    PolledWithoutCheck,
    /// The late reply to one request of a claim releases the lease, although the claim is still pending.
    LateReplyReleases,
    /// A release ends the lease that is there, without a look at its token.
    ReleaseOfAnyLease,
    /// A release appends the record of its run, whether it ended the lease or not.
    EveryReleaseRecords,
    /// A release deletes the shared lock, also that of another holder.
    LockDeletedBlindly,
    /// A claim looks at the lock only, and not at the mark: the plain `SET NX` pattern.
    NoMark,
    /// Every takeover counts as the first one.
    AttemptNotCounted,
    /// A tick that has finished is taken over.
    FinishedTickTakenOver,
    /// An expired lease is extended.
    ExpiredLeaseExtended,
    /// A claim does not look at the shared lock.
    ForeignLockIgnoredByClaim,
    /// A repeated claim does not look at the shared lock.
    ForeignLockIgnoredByRepeatedClaim,
    /// An extension does not look at the shared lock.
    ForeignLockIgnoredByExtension,
    /// A holder restores its lease whenever the key is free, without a look at its fence.
    RestoredWithoutFence,
    /// A holder that restores its lease sets the mark to its own tick.
    MarkLoweredByRestore,
    /// Breaking a manual lock deletes its record.
    BreakDeletesRecord,
    /// The record of a broken manual lock is kept until the stored end of the lease, and no longer.
    BrokenRecordKeptTooShortly,
    /// A release of a manual lock deletes its record, although a broken lease still counts.
    ReleaseDeletesBrokenRecord,
    /// The operator breaks the lease that holds the key by now, and not the one that was seen.
    BreakOfUnseenLease,
    /// The store's clock is estimated since the request was sent, which is too high.
    ClockFromRequest,
    /// A swap that ends a lease does not compare whether its work is committed.
    CommitNotCompared,
    /// Neither does the look show it.
    CommitNotRead,
    /// A new lease leaves the row of the one before as it is.
    RowLeftByClaim,
    /// So does the record of a crash.
    RowLeftByCrash,
    /// So does an operator's break.
    RowLeftByBreak,
    /// So does the release of a run that was finished in a transaction.
    RowLeftByRelease,
    /// A transaction does not lock the row of its lease.
    RowNotLocked,
    /// A transaction does not compare the row with its lease.
    RowNotCompared,
    /// A run can be finished twice.
    FinishedTwice,
}

impl Protocol {
    fn breaks(&self, rule: BrokenRule) -> bool {
        self.broken == Some(rule)
    }

    /// Whether versions are unique and compared, so that they may be renumbered.
    pub fn compares_versions(&self) -> bool {
        !matches!(
            self.broken,
            Some(
                BrokenRule::VersionNotCompared
                    | BrokenRule::VersionIsCounter
                    | BrokenRule::LockNotCompared
                    | BrokenRule::DecisionReused
                    | BrokenRule::CachedDecisionReused
            )
        )
    }

    pub fn reuses_decision(&self, without_look: bool) -> bool {
        self.breaks(BrokenRule::DecisionReused)
            || (without_look && self.breaks(BrokenRule::CachedDecisionReused))
    }

    pub fn starts_late_wins(&self) -> bool {
        self.breaks(BrokenRule::LateWinStarts)
    }

    pub fn counts_unanswered_extensions(&self) -> bool {
        self.breaks(BrokenRule::UnansweredExtensionCounts)
    }

    pub fn polls_without_check(&self) -> bool {
        self.breaks(BrokenRule::PolledWithoutCheck)
    }

    pub fn releases_by_late_reply(&self) -> bool {
        self.breaks(BrokenRule::LateReplyReleases)
    }

    /// The local deadline of a lease: rule 5.
    pub fn deadline(&self, sent: Micros, arrived: Micros, remaining: Micros) -> Micros {
        let ttl = self.configuration.policy.ttl;
        match self.broken {
            Some(BrokenRule::DeadlineFromTtl) => sent.saturating_add(ttl - self.margin),
            Some(BrokenRule::DeadlineFromArrival) => arrived + remaining.min(ttl) - self.margin,
            _ => sent.saturating_add(remaining.clamp(0, ttl) - self.margin),
        }
    }

    /// The local deadline of an answer that arrives late.
    pub fn late_deadline(&self, deadline: Micros, arrived: Micros) -> Micros {
        if self.breaks(BrokenRule::DeadlineFromArrival) {
            arrived + self.configuration.policy.ttl - self.margin
        } else {
            deadline
        }
    }

    /// The estimate of the store's clock, less real time, after an answer.
    pub fn estimate(&self, now: Micros, sent: Micros, arrived: Micros) -> Micros {
        now - if self.breaks(BrokenRule::ClockFromRequest) { sent } else { arrived }
    }

    pub fn locks_row(&self) -> bool {
        !self.breaks(BrokenRule::RowNotLocked)
    }
}
