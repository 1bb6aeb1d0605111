//! What the crate's functions are asked, and what they answer, with a rule broken.

use jobs::store::NotCurrent;

use crate::protocol::Protocol;
use crate::real::SECOND;
use crate::small::{
    ANY_TIME, Answer, Ask, Contents, Message, Micros, NEVER, NO_TOKEN, Recorded, SmallChange, SmallDecision,
    SmallFence, SmallFencedLease, SmallLease, SmallLock, SmallLockChange, SmallLook, SmallRecord, SmallState,
    SmallSwap,
};
use crate::state::Ending;

use super::BrokenRule;

impl Protocol {
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
            (Some(BrokenRule::CommitNotRead), Some(record)) => unmark(record),
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
            Some(BrokenRule::RowLeftByClaim)
                if matches!(decision.answer, Answer::Won(_)) && look.record.is_some() =>
            {
                change.ends_lease = None;
            }
            Some(BrokenRule::RowLeftByCrash) if !matches!(decision.answer, Answer::Won(_)) => {
                change.ends_lease = None;
            }
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
    pub fn release(&self, look: &SmallLook, ending: Ending) -> SmallDecision {
        let Ending { lease, end, finish_called, .. } = ending;
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
        let mut decision = self.real.decide(&seen, Message::Release(asked, end, finish_called));
        if self.breaks(BrokenRule::RowLeftByRelease)
            && let Some(change) = &mut decision.change
        {
            change.ends_lease = None;
        }
        if self.breaks(BrokenRule::EveryReleaseRecords) {
            let change = decision.change.unwrap_or(unchanged(look));
            decision.change = Some(SmallChange { records: Some(Recorded::Other), ..change });
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
        if self.breaks(BrokenRule::RowLeftByBreak)
            && let Some(change) = &mut decision.change
        {
            change.ends_lease = None;
        }
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
            Some(BrokenRule::CommitNotCompared | BrokenRule::CommitNotRead) => {
                swap.change.ends_lease = swap.change.ends_lease.map(|_| contents.finished());
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

    /// Marks the work of a lease as finished, in a transaction that is not committed yet.
    pub fn finish(&self, contents: &Contents, lease: SmallFencedLease) -> Result<Contents, NotCurrent> {
        let mut seen = *contents;
        match (self.broken, &mut seen.record) {
            (Some(BrokenRule::RowNotCompared), Some(record)) => record.lease = Some(lease),
            (Some(BrokenRule::FinishedTwice), Some(record)) => unmark(record),
            _ => {}
        }
        self.real.finish(&seen, lease)
    }
}

/// A record as if no transaction had committed the work of its lease.
fn unmark(record: &mut SmallRecord) {
    if let Some(lease) = &mut record.lease {
        lease.finished = false;
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
        records: None,
        ends_lease: None,
    }
}
