//! What must never happen, and what must be reachable so that the former says something.

pub mod properties;

use std::fmt;

/// A violation of an invariant. States with a violation have no successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// I1: a (tick, attempt) was started twice, a tick more often than allowed, or one below the mark was won.
    TwoStarts,
    /// I2: two runs overlap, or one of ours and another program's.
    Overlap,
    /// I3: a new lease has a fence that is not the highest so far.
    FenceNotHigher,
    /// I4: a stale token extended, released or finished, or another holder's lease or lock was overwritten.
    StaleToken,
    /// I7: a tick was won before it was due by the store's clock.
    BeforeDue,
    /// A lease was granted for longer than its ttl.
    LongerThanTtl,
    /// A tick that was skipped was won, or one that was finished became unfinished.
    DecidedTwice,
    /// A claim was applied after the tick's grace, or when its lease was already over for its holder.
    OutOfTime,
    /// A restored lease lowered the mark or the fence, replaced a newer one, or had expired or ended before; or the newest
    /// lease was not restored.
    BadRestore,
    /// A broken lease was extended or restored, or an operator broke a lease that was not seen.
    BadBreak,
    /// A run was recorded twice.
    TwoRecords,
    /// No server can ever win the next tick.
    Stuck,
    /// I10: the effects of a tick were committed twice.
    TwoEffects,
    /// I10: the effects of a run were committed after its lease had been ended.
    StaleEffect,
    /// The outcome of a run on record does not say whether its effects are committed.
    WrongOutcome,
}

impl Violation {
    pub const ALL: [Self; 15] = [
        Self::TwoStarts,
        Self::Overlap,
        Self::FenceNotHigher,
        Self::StaleToken,
        Self::BeforeDue,
        Self::LongerThanTtl,
        Self::DecidedTwice,
        Self::OutOfTime,
        Self::BadRestore,
        Self::BadBreak,
        Self::TwoRecords,
        Self::Stuck,
        Self::TwoEffects,
        Self::StaleEffect,
        Self::WrongOutcome,
    ];

    /// The property that it violates.
    pub fn property(self) -> &'static str {
        match self {
            Self::TwoStarts => "I1: each tick and attempt starts at most once",
            Self::Overlap => "I2: runs do not overlap",
            Self::FenceNotHigher => "I3: fences are unique and grow",
            Self::StaleToken => "I4: a stale token neither extends nor releases",
            Self::BeforeDue => "I7: no run starts before its tick",
            Self::LongerThanTtl => "a lease is granted for at most its ttl",
            Self::DecidedTwice => "a decided tick stays decided",
            Self::OutOfTime => "a claim is applied within its limits",
            Self::BadRestore => "restoring a lease undoes nothing newer",
            Self::BadBreak => "a broken lease stays broken",
            Self::TwoRecords => "a run has one record",
            Self::Stuck => "the next tick can be won",
            Self::TwoEffects => "I10: the effects of a tick are committed once",
            Self::StaleEffect => "I10: a run that was overtaken commits nothing",
            Self::WrongOutcome => "the record of a run says whether it is committed",
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// A set of violations.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Violations(u16);

impl Violations {
    pub fn add(&mut self, violation: Violation) {
        self.0 |= violation.bit();
    }

    pub fn has(self, violation: Violation) -> bool {
        self.0 & violation.bit() != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Violation::ALL.iter().filter(|violation| self.has(**violation))).finish()
    }
}

/// Something that must be reachable, or the model would be vacuous. The last ones are documented limits of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    Won,
    TakenOver,
    WonAgain,
    Raced,
    LeaseExpired,
    LeaseLost,
    WonTooLate,
    StoppedHolderSucceeded,
    ExtendedWithoutLook,
    ReleasedWithoutLook,
    ClaimedWithoutLook,
    LateClaimOfCrashedServer,
    LateExtension,
    LateRelease,
    AbandonedClaimReleased,
    SkippedHeld,
    SkippedPaused,
    HeldByForeignLock,
    LockVanishedUnderRun,
    Restored,
    BrokenLeaseLost,
    OperatorTooLate,
    RunLate,
    Committed,
    CommittedByTakeover,
    CommittedRunRecorded,
    CommittedSinceLook,
    ExtendedBesideTransaction,
    FinishRefused,
    FinishedBefore,
    DoubleStartAfterLostWrites,
    OlderHolderRestored,
    FenceAfterClockWentBack,
    BreakUndoneByLostWrites,
}

impl Fact {
    /// The fact as a property.
    pub fn property(self) -> &'static str {
        match self {
            Self::Won => "a tick or a lock is won",
            Self::TakenOver => "a tick is taken over",
            Self::WonAgain => "a claim whose answer was lost is won again",
            Self::Raced => "a swap is refused because the key has changed",
            Self::LeaseExpired => "a lease of a crashed or stopped holder expires and has a successor",
            Self::LeaseLost => "an extension reports a lost lease",
            Self::WonTooLate => "a win arrives after its own deadline and is released",
            Self::StoppedHolderSucceeded => "a stopped holder is past its lease while its successor runs",
            Self::ExtendedWithoutLook => "a lease is extended without a look",
            Self::ReleasedWithoutLook => "a lease is released without a look",
            Self::ClaimedWithoutLook => "a lock is won without a look",
            Self::LateClaimOfCrashedServer => {
                "a late claim wins for a server that is gone, and starts nothing"
            }
            Self::LateExtension => "a late extension is applied",
            Self::LateRelease => "a late release is applied",
            Self::AbandonedClaimReleased => "an abandoned claim releases what it won",
            Self::SkippedHeld => "a tick is skipped because the key is held",
            Self::SkippedPaused => "a tick is skipped because the job is paused",
            Self::HeldByForeignLock => "a claim is refused because another program holds the lock",
            Self::LockVanishedUnderRun => "the shared lock vanishes under a run, which is then extended",
            Self::Restored => "a lease that the store has lost is restored",
            Self::BrokenLeaseLost => "the holder of a broken lease loses it",
            Self::OperatorTooLate => "an operator breaks nothing because the holder is a newer one",
            Self::RunLate => "a missed tick is run late",
            Self::Committed => "the effects of a run are committed",
            Self::CommittedByTakeover => "the effects of a tick are committed by a takeover",
            Self::CommittedRunRecorded => "a run that did not say how it ended is recorded as committed",
            Self::CommittedSinceLook => {
                "a swap is refused only because the work was committed since its look"
            }
            Self::ExtendedBesideTransaction => "a lease is extended while its transaction is open",
            Self::FinishRefused => "a run that was overtaken cannot be finished",
            Self::FinishedBefore => "a run that is committed cannot be finished again",
            Self::DoubleStartAfterLostWrites => "LIMIT: a tick starts twice after the store lost its writes",
            Self::OlderHolderRestored => {
                "LIMIT: an older holder is restored after a newer one (a manual lock, or writes lost twice)"
            }
            Self::BreakUndoneByLostWrites => "LIMIT: lost writes undo a break",
            Self::FenceAfterClockWentBack => {
                "LIMIT: a fence of a manual lock does not grow after the clock went back"
            }
        }
    }
}

/// The facts of one step.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub violations: Violations,
    pub facts: Vec<Fact>,
}

impl Notes {
    pub fn violated_if(&mut self, condition: bool, violation: Violation) {
        if condition {
            self.violations.add(violation);
        }
    }

    pub fn fact_if(&mut self, condition: bool, fact: Fact) {
        if condition {
            self.facts.push(fact);
        }
    }
}
