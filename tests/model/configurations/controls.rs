//! The controls: each broken rule, where it is broken, and the property that it violates.

use crate::broken::BrokenRule::{self, *};
use crate::configurations::configuration::{Configuration, Policy};
use crate::configurations::{EFFECTS, LOCK, RETRY, SKIP, SQL, one_tick};
use crate::facts::Violation::{
    self, BadBreak, BadRestore, BeforeDue, DecidedTwice, FenceNotHigher, LongerThanTtl, OutOfTime, Overlap,
    StaleEffect, StaleToken, TwoEffects, TwoRecords, TwoStarts, WrongOutcome,
};
use crate::state::Budget;

/// A broken rule, the configuration that it is broken in, and the violation that must be found.
pub type Control = (BrokenRule, Configuration, Violation);

const fn with(configuration: Configuration, budget: Budget) -> Configuration {
    Configuration { budget, sometimes: &[], ..configuration }
}

const SHORT_GRACE: Configuration = Configuration { policy: Policy { grace: 0, ..SKIP.policy }, ..SKIP };

const CLOCK_GOES_BACK: Configuration = Configuration { jumps: &[-2], ..SKIP };

const CACHING: Configuration = Configuration { caches: true, ..SKIP };

/// The clock passes from a break to an answer that is late, and to the deadline of the broken lease.
const LATE_ANSWER: Configuration =
    Configuration { policy: Policy { shares_lock: false, ..LOCK.policy }, clock: &[12, 16, 17], ..LOCK };

const PAUSED_AFTER_CRASH: Configuration =
    Configuration { policy: Policy { pause_after: 1, takeovers: 0, ..EFFECTS.policy }, ..EFFECTS };

const NETWORK: Budget = Budget { network: 1, ..SKIP.budget };
const CRASH: Budget = Budget { crashes: 1, ..SKIP.budget };
const STOP: Budget = Budget { stops: 1, ..SKIP.budget };
const WIPE: Budget = Budget { wipes: 1, ..SKIP.budget };
const FAILOVER: Budget = Budget { failovers: 1, ..SKIP.budget };
const FOREIGN: Budget = Budget { foreign: 1, vanishings: 1, network: 1, ..SKIP.budget };
const EFFECTS_CRASH: Budget = Budget { crashes: 1, ..EFFECTS.budget };
const EFFECTS_STOP: Budget = Budget { stops: 1, ..EFFECTS.budget };
const BREAK: Budget = Budget { breaks: 1, ..SKIP.budget };

/// Every control.
pub const ALL: &[Control] = &[
    // The swap.
    (VersionNotCompared, SKIP, TwoStarts),
    (VersionIsCounter, with(SQL, WIPE), StaleToken),
    (LockNotCompared, with(SKIP, FOREIGN), StaleToken),
    (DecisionReused, SKIP, TwoStarts),
    (FenceFromLook, with(SKIP, WIPE), FenceNotHigher),
    (FenceFromLook, with(SKIP, FAILOVER), FenceNotHigher),
    (FenceIsCounter, with(SKIP, WIPE), FenceNotHigher),
    (FenceIsCounter, with(SKIP, FAILOVER), FenceNotHigher),
    // Limits in time.
    (ClaimWithoutNotBefore, CLOCK_GOES_BACK, BeforeDue),
    (ClaimWithoutNotAfter, SKIP, OutOfTime),
    (ClaimNotLimitedByGrace, SHORT_GRACE, OutOfTime),
    (ExtensionWithoutNotAfter, with(SQL, STOP), StaleToken),
    (
        ExtensionWithoutNotAfter,
        with(one_tick(SKIP), Budget { wipes: 1, stops: 1, ..SKIP.budget }),
        BadRestore,
    ),
    (ExtensionWithoutNotBefore, Configuration { jumps: &[-2], ..CACHING }, LongerThanTtl),
    (UntilByFastClock, SKIP, LongerThanTtl),
    // The local deadline.
    (DeadlineFromTtl, SKIP, Overlap),
    (DeadlineFromArrival, with(SKIP, NETWORK), Overlap),
    (LateWinStarts, with(SKIP, NETWORK), Overlap),
    (UnansweredExtensionCounts, with(SKIP, NETWORK), Overlap),
    (PolledWithoutCheck, with(SKIP, STOP), Overlap),
    // Whose lease it is.
    (LateReplyReleases, with(SKIP, NETWORK), Overlap),
    (ReleaseOfAnyLease, with(SKIP, STOP), StaleToken),
    (EveryReleaseRecords, with(SKIP, NETWORK), TwoRecords),
    (LockDeletedBlindly, with(SKIP, STOP), StaleToken),
    (ExpiredLeaseExtended, with(SKIP, STOP), StaleToken),
    (ForeignLockIgnoredByClaim, with(SKIP, FOREIGN), StaleToken),
    (ForeignLockIgnoredByRepeatedClaim, with(SKIP, FOREIGN), StaleToken),
    (ForeignLockIgnoredByExtension, with(SKIP, FOREIGN), StaleToken),
    // Takeovers.
    (AttemptNotCounted, with(RETRY, Budget { crashes: 2, ..CRASH }), TwoStarts),
    (FinishedTickTakenOver, RETRY, DecidedTwice),
    // The mark, and restoring.
    (NoMark, SKIP, TwoStarts),
    (NoMark, with(RETRY, CRASH), TwoStarts),
    (RestoredWithoutFence, with(SKIP, FAILOVER), BadRestore),
    (MarkLoweredByRestore, with(SKIP, Budget { pauses: 1, ..WIPE }), BadRestore),
    // Manual locks.
    (CachedDecisionReused, CACHING, StaleToken),
    (ClaimWithoutNotBefore, Configuration { jumps: &[-2], ..LOCK }, LongerThanTtl),
    (BreakDeletesRecord, with(LOCK, BREAK), BadBreak),
    (ReleaseDeletesBrokenRecord, with(LOCK, BREAK), BadBreak),
    (BreakOfUnseenLease, with(LOCK, BREAK), BadBreak),
    (BrokenRecordKeptTooShortly, with(LOCK, Budget { failovers: 1, ..BREAK }), BadBreak),
    (ClockFromRequest, with(LATE_ANSWER, Budget { claims: 2, network: 1, ..BREAK }), BadBreak),
    // Effects.
    (CommitNotCompared, with(EFFECTS, EFFECTS_CRASH), DecidedTwice),
    (CommitNotRead, with(EFFECTS, EFFECTS_CRASH), DecidedTwice),
    (CommitNotRead, with(one_tick(EFFECTS), EFFECTS_CRASH), DecidedTwice),
    (RowLeftByClaim, with(EFFECTS, EFFECTS_STOP), StaleEffect),
    (RowLeftByCrash, with(PAUSED_AFTER_CRASH, EFFECTS_STOP), WrongOutcome),
    (RowLeftByBreak, with(EFFECTS, Budget { breaks: 1, ..EFFECTS.budget }), WrongOutcome),
    (RowLeftByRelease, EFFECTS, WrongOutcome),
    (RowNotLocked, with(EFFECTS, EFFECTS_STOP), StaleEffect),
    (RowNotCompared, with(EFFECTS, EFFECTS_STOP), StaleEffect),
    (FinishedTwice, EFFECTS, TwoEffects),
];
