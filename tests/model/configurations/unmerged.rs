//! Small configurations, explored with and without merging states.

use jobs::schedule::Overlap;

use crate::configurations::configuration::{Configuration, Policy};
use crate::configurations::{EFFECTS, LOCK, NO_FAULTS, RETRY, RETRYING, SQL, one_tick};
use crate::facts::Fact::{
    BrokenLeaseLost, Committed, CommittedByTakeover, CommittedSinceLook, DoubleStartAfterLostWrites,
    ExtendedWithoutLook, FinishRefused, HeldByForeignLock, LateExtension, OperatorTooLate, Raced, Restored,
    StoppedHolderSucceeded, TakenOver, Won, WonAgain,
};
use crate::state::Budget;

/// The small configurations.
pub const ALL: &[Configuration] = &[
    Configuration {
        name: "2 x 1, retry, queued: network, stop",
        clock: &[12, 13, 17, 18],
        budget: Budget { claims: 2, network: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, WonAgain, LateExtension, StoppedHolderSucceeded],
        policy: Policy { overlap: Overlap::Queue, due: &[12], ..RETRYING },
        ..RETRY
    },
    Configuration {
        name: "2 x 1, retry: crash, vanishing lock, another program",
        clock: &[12, 13, 18, 19],
        budget: Budget { claims: 2, crashes: 1, vanishings: 1, foreign: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, Raced, TakenOver, HeldByForeignLock, ExtendedWithoutLook],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "2 x 1, wipe: network",
        clock: &[12, 13, 17],
        budget: Budget { claims: 2, wipes: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, Restored, DoubleStartAfterLostWrites],
        ..one_tick(SQL)
    },
    Configuration {
        name: "2 x 1, effects: crash, stop",
        clock: &[12, 13, 17, 18],
        budget: Budget { claims: 2, crashes: 1, stops: 1, ..EFFECTS.budget },
        sometimes: &[Committed, CommittedByTakeover, CommittedSinceLook, FinishRefused],
        ..one_tick(EFFECTS)
    },
    Configuration {
        name: "lock, 2 servers, break: crash",
        clock: &[12, 17, 18],
        budget: Budget { claims: 2, breaks: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, BrokenLeaseLost, OperatorTooLate],
        ..LOCK
    },
];
