//! Broken rules, each of which the model must catch: changes to the client of the model, or to what the crate's functions
//! are asked and answer. The crate's own code stays as it is.

use crate::protocol::Protocol;
use crate::real::SECOND;
use crate::small::{
    ANY_TIME, Answer, Ask, Contents, End, Message, Micros, NEVER, NO_TOKEN, SmallChange, SmallDecision,
    SmallFence, SmallLease, SmallLock, SmallLockChange, SmallLook, SmallRecord, SmallState, SmallSwap,
};

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

    /// Decides a claim.
    pub fn claim(&self, look: &SmallLook, ask: Ask) -> SmallDecision {
        let mut seen = *look;
        let is_own = look
            .record
            .and_then(|record| record.state.claimant)
            .is_some_and(|lease| lease.token == ask.token);
        match (self.broken, &mut seen.record) {
            (Some(BrokenRule::NoMark), Some(record)) => {
                (record.state.mark, record.state.started) = (None, None);
            }
            (Some(BrokenRule::AttemptNotCounted), Some(record)) => {
                if let Some(started) = &mut record.state.started {
                    started.attempt = 1;
                }
            }
            (Some(BrokenRule::FinishedTickTakenOver), Some(record)) => {
                if let Some(started) = &mut record.state.started {
                    started.finished = false;
                }
            }
            (Some(BrokenRule::ForeignLockIgnoredByClaim), _) if !is_own => seen.lock = None,
            (Some(BrokenRule::ForeignLockIgnoredByRepeatedClaim), _) if is_own => seen.lock = None,
            _ => {}
        }
        let mut decision = self.real.decide(&seen, Message::Claim(ask));
        let Some(change) = &mut decision.change else { return decision };
        let soon = look.now + self.response_timeout;
        match self.broken {
            Some(BrokenRule::FenceFromLook) if change.fence == SmallFence::Next => {
                let stored = look.record.map_or(0, |record| record.fence);
                change.fence = SmallFence::AtLeast((stored + 1).max(look.now));
            }
            Some(BrokenRule::ClaimWithoutNotBefore) => change.not_before = ANY_TIME,
            Some(BrokenRule::ClaimWithoutNotAfter) => change.not_after = NEVER,
            Some(BrokenRule::ClaimNotLimitedByGrace) => change.not_after = soon,
            Some(BrokenRule::UntilByFastClock) => later(change),
            _ => {}
        }
        decision
    }

    /// Decides an extension.
    pub fn extend(&self, look: &SmallLook, lease: SmallLease) -> SmallDecision {
        let (mut seen, mut asked) = (*look, lease);
        match (self.broken, &mut seen.record) {
            (Some(BrokenRule::ExpiredLeaseExtended), Some(SmallRecord { state, .. })) => {
                if let Some(claimant) = &mut state.claimant
                    && claimant.token == lease.token
                {
                    claimant.until = claimant.until.max(look.now + 1);
                }
            }
            (Some(BrokenRule::ForeignLockIgnoredByExtension), _) => seen.lock = None,
            (Some(BrokenRule::RestoredWithoutFence), Some(record)) => {
                let is_own = record.state.claimant.is_some_and(|claimant| claimant.token == lease.token);
                if !is_own && record.state.holder(look.now).is_none() {
                    asked.fence = asked.fence.max(record.fence + 1);
                }
            }
            _ => {}
        }
        let mut decision = self.real.decide(&seen, Message::Extend(asked));
        let Some(change) = &mut decision.change else { return decision };
        match self.broken {
            Some(BrokenRule::ExtensionWithoutNotAfter | BrokenRule::ExpiredLeaseExtended) => {
                change.not_after = NEVER;
            }
            Some(BrokenRule::ExtensionWithoutNotBefore) => change.not_before = ANY_TIME,
            Some(BrokenRule::UntilByFastClock) => later(change),
            Some(BrokenRule::MarkLoweredByRestore) if matches!(decision.answer, Answer::Restored(_)) => {
                if let Some(mark) = change.state.as_mut().and_then(|state| state.mark.as_mut()) {
                    mark.tick = lease.tick;
                }
            }
            _ => {}
        }
        decision
    }

    /// Decides a release.
    pub fn release(&self, look: &SmallLook, lease: SmallLease, end: End) -> SmallDecision {
        let (mut seen, mut asked) = (*look, lease);
        let claimant = look.record.and_then(|record| record.state.claimant);
        match (self.broken, claimant, &mut seen.record) {
            (Some(BrokenRule::ReleaseOfAnyLease), Some(claimant), _) => {
                asked = SmallLease { fence: 0, ..claimant };
            }
            (Some(BrokenRule::ReleaseDeletesBrokenRecord), _, Some(record)) => {
                record.state.broken_until = None;
            }
            _ => {}
        }
        let mut decision = self.real.decide(&seen, Message::Release(asked, end));
        if self.breaks(BrokenRule::EveryReleaseRecords) {
            let change = decision.change.unwrap_or(unchanged(look));
            decision.change = Some(SmallChange { records_run: true, ..change });
        }
        if self.breaks(BrokenRule::LockDeletedBlindly) && look.lock.is_some() {
            let change = decision.change.unwrap_or(unchanged(look));
            decision.change = Some(SmallChange { lock: SmallLockChange::Delete, ..change });
        }
        decision
    }

    /// Decides a break of what was seen.
    pub fn break_lock(&self, look: &SmallLook, (fence, token): (i32, u8)) -> SmallDecision {
        let now =
            (look.record.map_or(0, |record| record.fence), look.lock.map_or(NO_TOKEN, |lock| lock.token));
        let seen = if self.breaks(BrokenRule::BreakOfUnseenLease) { now } else { (fence, token) };
        let mut decision = self.real.decide(look, Message::Break(seen.0, seen.1));
        if self.breaks(BrokenRule::BreakDeletesRecord)
            && let Some(change) = &mut decision.change
        {
            change.state = None;
        }
        if self.breaks(BrokenRule::BrokenRecordKeptTooShortly)
            && let Some(SmallChange { state: Some(state), .. }) = &mut decision.change
        {
            let until = state.claimant.map(|lease| lease.until);
            (state.broken_until, state.expires) = (until, until);
        }
        decision
    }

    /// Applies a swap; `None` if the store refuses it.
    pub fn apply(&self, contents: &Contents, now: Micros, swap: &SmallSwap) -> Option<Contents> {
        let mut swap = *swap;
        match self.broken {
            Some(BrokenRule::VersionNotCompared) => swap.expected = contents.version(),
            Some(BrokenRule::LockNotCompared) => {
                swap.expected_lock = contents.live_lock(now).map_or(NO_TOKEN, |lock| lock.token);
            }
            Some(BrokenRule::FenceIsCounter) if swap.change.fence == SmallFence::Next => {
                swap.change.fence = SmallFence::AtLeast(contents.fence() + 1);
            }
            _ => {}
        }
        let mut after = self.real.swap(contents, now, &swap)?;
        if !self.compares_versions()
            && let Some(record) = &mut after.record
        {
            record.version = contents.version() + 1;
        }
        Some(after)
    }
}

/// Moves the expiry of a lease by a second.
fn later(change: &mut SmallChange) {
    if let Some(SmallState { claimant: Some(lease), .. }) = &mut change.state {
        lease.until += SECOND;
    }
    if let SmallLockChange::Set(SmallLock { until, .. }) = &mut change.lock {
        *until += SECOND;
    }
}

/// A change that writes the record as it is.
fn unchanged(look: &SmallLook) -> SmallChange {
    SmallChange {
        not_before: ANY_TIME,
        not_after: NEVER,
        state: look.record.map(|record| record.state),
        fence: SmallFence::Keep,
        lock: SmallLockChange::Leave,
        records_run: false,
    }
}
