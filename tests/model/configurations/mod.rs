//! The configurations that every run explores in full: servers × ticks, and the faults that occur.

pub mod configuration;
pub mod controls;
pub mod large;
pub mod unmerged;

use jobs::schedule::{Missed, Overlap};

use crate::configurations::configuration::{Configuration, Policy};
use crate::facts::Fact::{
    AbandonedClaimReleased, BrokenLeaseLost, ClaimedWithoutLook, Committed, CommittedByTakeover,
    CommittedRunRecorded, CommittedSinceLook, DoubleStartAfterLostWrites, ExtendedBesideTransaction,
    ExtendedWithoutLook, FenceAfterClockWentBack, FinishRefused, FinishedBefore, HeldByForeignLock,
    LateClaimOfCrashedServer, LateExtension, LateRelease, LeaseExpired, LeaseLost, LockVanishedUnderRun,
    OlderHolderRestored, OperatorTooLate, Raced, ReleasedWithoutLook, Restored, RunLate, SkippedHeld,
    SkippedPaused, StoppedHolderSucceeded, TakenOver, Won, WonAgain, WonTooLate,
};
use crate::real::SECOND;
use crate::state::Budget;

/// A job with a ttl of 6 s: a response timeout of 1 s and a margin of 0.6 s follow from it.
pub const SKIPPING: Policy = Policy {
    due: &[12, 14],
    next_due: 60,
    ttl: 6 * SECOND,
    grace: 1000 * SECOND,
    takeovers: 0,
    overlap: Overlap::Skip,
    missed: Missed::Skip,
    is_manual: false,
    shares_lock: true,
    finishes: false,
    pause_after: 0,
};

pub const RETRYING: Policy = Policy { takeovers: 1, ..SKIPPING };

pub const NO_FAULTS: Budget = Budget {
    claims: 3,
    manual_runs: 0,
    network: 0,
    crashes: 0,
    stops: 0,
    vanishings: 0,
    foreign: 0,
    pauses: 0,
    breaks: 0,
    wipes: 0,
    failovers: 0,
    transactions: 0,
};

/// Two servers and two ticks of a job with `on_crash = "skip"`, on Redis. The clock passes through the ticks, the response
/// timeout of a claim at each of them, the deadline and the end of each lease, and the end of an extended one.
pub const SKIP: Configuration = Configuration {
    name: "2 x 2",
    policy: SKIPPING,
    servers: 2,
    clock: &[11, 12, 13, 14, 17, 18, 19, 20, 23],
    past_second: 0,
    budget: NO_FAULTS,
    jumps: &[],
    caches: false,
    swaps_first: false,
    looks_twice: false,
    starts_late: false,
    sometimes: &[Won, Raced],
};

/// The same with `on_crash = "retry"`.
pub const RETRY: Configuration = Configuration { policy: RETRYING, ..SKIP };

/// On a store without a lock that other programs share: PostgreSQL, files.
pub const SQL: Configuration = Configuration { policy: Policy { shares_lock: false, ..SKIPPING }, ..SKIP };

/// A manual lock, whose first request is its swap and whose record is deleted at its release.
pub const LOCK: Configuration = Configuration {
    policy: Policy { due: &[], is_manual: true, ..SKIPPING },
    clock: &[11, 12, 17, 18, 19, 23],
    caches: true,
    swaps_first: true,
    ..SKIP
};

/// Runs that are finished in transactions: the store is the application's database.
pub const EFFECTS: Configuration = Configuration {
    policy: Policy { finishes: true, shares_lock: false, ..RETRYING },
    clock: &[12, 13, 14, 17, 18, 19, 20],
    budget: Budget { transactions: 2, ..NO_FAULTS },
    ..SKIP
};

pub const fn one_tick(configuration: Configuration) -> Configuration {
    let policy = Policy { due: &[12], ..configuration.policy };
    Configuration { policy, clock: &[11, 12, 13, 17, 18, 19, 23], ..configuration }
}

/// The configurations of every run.
pub const ALL: &[Configuration] = &[
    Configuration {
        name: "A: 3 x 3, retry: crash",
        servers: 3,
        policy: Policy { due: &[12, 14, 19], ..RETRYING },
        clock: &[11, 12, 13, 14, 18, 19, 20, 25],
        budget: Budget { claims: 4, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, TakenOver, LeaseExpired, SkippedHeld],
        ..RETRY
    },
    Configuration {
        name: "B: 3 x 3, skip: network, crash, stop",
        servers: 3,
        policy: Policy { due: &[12, 14, 19], ..SKIPPING },
        clock: &[12, 13, 14, 18, 19, 20],
        budget: Budget { network: 1, crashes: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, LeaseExpired, StoppedHolderSucceeded, WonAgain, LateClaimOfCrashedServer],
        ..SKIP
    },
    Configuration {
        name: "C: 2 x 1, skip: 2 network faults, crash",
        budget: Budget { network: 2, crashes: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[
            Won,
            Raced,
            WonAgain,
            WonTooLate,
            LateClaimOfCrashedServer,
            LateExtension,
            LateRelease,
            AbandonedClaimReleased,
            ExtendedWithoutLook,
            ReleasedWithoutLook,
        ],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "D: 2 x 2, retry: network, crash",
        budget: Budget { network: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, TakenOver, WonAgain, LeaseExpired],
        ..RETRY
    },
    Configuration {
        name: "E: 2 x 2, retry, queued: network, stop",
        policy: Policy { overlap: Overlap::Queue, ..RETRYING },
        budget: Budget { network: 1, stops: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, TakenOver, LeaseLost, StoppedHolderSucceeded],
        ..RETRY
    },
    Configuration {
        name: "F: 3 x 1, retry: network, crash",
        servers: 3,
        budget: Budget { network: 1, crashes: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, TakenOver, Raced],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "G: 2 x 1, retry, a manual run: network, crash",
        budget: Budget { manual_runs: 1, network: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, TakenOver, SkippedHeld],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "H: 2 x 1, another program twice, vanishing lock: network",
        budget: Budget { foreign: 2, vanishings: 1, network: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, HeldByForeignLock, LockVanishedUnderRun, LeaseLost],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "I: 2 x 1, retry, paused and resumed: network",
        budget: Budget { pauses: 2, network: 1, ..NO_FAULTS },
        sometimes: &[Won, SkippedPaused],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "J: 2 x 1, retry, short grace: network, crash",
        policy: Policy { grace: SECOND, ..one_tick(RETRY).policy },
        budget: Budget { network: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, TakenOver],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "K: 2 x 2, missed ticks run once: network, crash",
        policy: Policy { missed: Missed::RunOnce, grace: SECOND, ..SKIPPING },
        budget: Budget { network: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, RunLate],
        ..SKIP
    },
    Configuration {
        name: "L: 2 x 2, no shared lock: network, stop",
        budget: Budget { network: 1, stops: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, StoppedHolderSucceeded, ExtendedWithoutLook],
        ..SQL
    },
    Configuration {
        name: "M: 2 x 1, instants between milliseconds, slow start: network, stop",
        past_second: 400,
        starts_late: true,
        budget: Budget { network: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, WonTooLate],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "N: 2 x 1, wipe: network",
        budget: Budget { wipes: 1, network: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "O: 2 x 2, wipe: crash",
        budget: Budget { wipes: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..SKIP
    },
    Configuration {
        name: "P: 2 x 1, retry, lossy failover: crash",
        budget: Budget { failovers: 1, crashes: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored, TakenOver],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "T: 2 x 1, no shared lock, wipe: network, stop",
        budget: Budget { wipes: 1, network: 1, stops: 1, ..NO_FAULTS },
        clock: &[12, 13, 17, 18, 19],
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..one_tick(SQL)
    },
    Configuration {
        name: "W: 2 x 2, the store's clock -2 s: crash",
        budget: Budget { crashes: 1, ..NO_FAULTS },
        jumps: &[-2],
        caches: true,
        ..SKIP
    },
    Configuration {
        name: "X: 2 x 1, failover to a store whose clock is 2 s behind: crash",
        budget: Budget { failovers: 1, crashes: 1, ..NO_FAULTS },
        jumps: &[-2],
        clock: &[12, 13, 17, 18, 19],
        caches: true,
        ..one_tick(SKIP)
    },
    Configuration {
        name: "Y: 2 x 1, a look in two parts: network, another program",
        clock: &[12, 13, 17, 18],
        budget: Budget { claims: 2, network: 1, foreign: 1, ..NO_FAULTS },
        looks_twice: true,
        sometimes: &[Won, Raced, HeldByForeignLock],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "Z: 2 x 1, retry, a look in two parts: crash, vanishing lock",
        clock: &[12, 13, 17, 18, 19],
        budget: Budget { crashes: 1, vanishings: 1, ..NO_FAULTS },
        looks_twice: true,
        sometimes: &[Won, Raced, TakenOver],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "a: lock, 2 servers: network, stop",
        budget: Budget { claims: 2, network: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, ClaimedWithoutLook, StoppedHolderSucceeded],
        ..LOCK
    },
    Configuration {
        name: "b: lock, 3 servers: crash, stop",
        servers: 3,
        budget: Budget { crashes: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, LeaseExpired],
        ..LOCK
    },
    Configuration {
        name: "c: lock, 2 servers, break: network",
        budget: Budget { claims: 2, breaks: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, BrokenLeaseLost, OperatorTooLate],
        ..LOCK
    },
    Configuration {
        name: "d: lock, 2 servers, wipe: network",
        budget: Budget { claims: 2, wipes: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, Restored, OlderHolderRestored],
        ..LOCK
    },
    Configuration {
        name: "g: lock, 2 servers, the store's clock +2 s, then -2 s: crash",
        budget: Budget { claims: 2, crashes: 1, ..NO_FAULTS },
        jumps: &[2, -2],
        sometimes: &[Won, FenceAfterClockWentBack],
        ..LOCK
    },
    Configuration {
        name: "h: 2 x 1, retry, break: network, crash",
        budget: Budget { breaks: 1, network: 1, crashes: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, BrokenLeaseLost],
        ..one_tick(RETRY)
    },
    Configuration {
        name: "i: 2 x 1, effects: network, crash",
        budget: Budget { network: 1, crashes: 1, ..EFFECTS.budget },
        caches: true,
        sometimes: &[
            Committed,
            CommittedByTakeover,
            CommittedSinceLook,
            ExtendedBesideTransaction,
            FinishedBefore,
        ],
        ..one_tick(EFFECTS)
    },
    Configuration {
        name: "j: 2 x 2, effects: crash, stop",
        budget: Budget { crashes: 1, stops: 1, ..EFFECTS.budget },
        sometimes: &[Committed, CommittedByTakeover, CommittedRunRecorded, CommittedSinceLook, FinishRefused],
        ..EFFECTS
    },
    Configuration {
        name: "k: 2 x 1, effects, break: crash, stop",
        budget: Budget { breaks: 1, crashes: 1, stops: 1, ..EFFECTS.budget },
        caches: true,
        sometimes: &[Committed, CommittedRunRecorded, FinishRefused],
        ..one_tick(EFFECTS)
    },
    Configuration {
        name: "l: 2 x 2, effects, paused after a crash: stop",
        policy: Policy { pause_after: 1, takeovers: 0, ..EFFECTS.policy },
        budget: Budget { stops: 1, crashes: 1, ..EFFECTS.budget },
        sometimes: &[Committed, CommittedRunRecorded, CommittedSinceLook, FinishRefused],
        ..EFFECTS
    },
];
