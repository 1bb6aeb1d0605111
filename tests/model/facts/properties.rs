//! The properties that stateright checks.

use stateright::Property;

use crate::facts::{Fact, Violation};
use crate::protocol::Protocol;
use crate::state::State;

/// The property that a violation never occurs.
pub fn always(violation: Violation) -> Property<Protocol> {
    // A condition is a plain function, without a value of its own.
    macro_rules! never {
        ($($variant:ident)*) => {
            match violation {
                $(Violation::$variant => Property::always(violation.property(), |_: &Protocol, state: &State| {
                    !state.violations.has(Violation::$variant)
                }),)*
            }
        };
    }
    never!(
        TwoStarts Overlap FenceNotHigher StaleToken BeforeDue LongerThanTtl DecidedTwice OutOfTime BadRestore
        BadBreak TwoRecords Stuck TwoEffects StaleEffect WrongOutcome
    )
}

/// The property that a fact is reached.
pub fn sometimes(fact: Fact) -> Property<Protocol> {
    macro_rules! reached {
        ($($variant:ident)*) => {
            match fact {
                $(Fact::$variant => Property::sometimes(fact.property(), |_: &Protocol, state: &State| {
                    state.witness == Some(Fact::$variant)
                }),)*
            }
        };
    }
    reached!(
        Won TakenOver WonAgain Raced LeaseExpired LeaseLost WonTooLate StoppedHolderSucceeded
        ExtendedWithoutLook ReleasedWithoutLook ClaimedWithoutLook LateClaimOfCrashedServer LateExtension
        LateRelease AbandonedClaimReleased SkippedHeld SkippedPaused HeldByForeignLock LockVanishedUnderRun
        Restored BrokenLeaseLost OperatorTooLate RunLate DoubleStartAfterLostWrites OlderHolderRestored
        FenceAfterClockWentBack BreakUndoneByLostWrites Committed CommittedByTakeover CommittedRunRecorded
        CommittedSinceLook ExtendedBesideTransaction FinishRefused FinishedBefore
    )
}
