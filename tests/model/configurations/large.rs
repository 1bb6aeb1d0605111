//! Larger configurations, explored with `JOBS_TEST_MODEL=all`.

use crate::configurations::configuration::{Configuration, Policy};
use crate::configurations::{LOCK, NO_FAULTS, RETRY, RETRYING, SKIP, SKIPPING, SQL, one_tick};
use crate::facts::Fact::{
    BreakUndoneByLostWrites, BrokenLeaseLost, DoubleStartAfterLostWrites, HeldByForeignLock, LeaseExpired,
    OlderHolderRestored, OperatorTooLate, Raced, Restored, StoppedHolderSucceeded, TakenOver, Won, WonAgain,
    WonTooLate,
};
use crate::state::Budget;

/// The large configurations.
pub const ALL: &[Configuration] = &[
    Configuration {
        name: "LA: 3 x 3, retry: network, crash",
        servers: 3,
        policy: Policy { due: &[12, 14, 19], ..RETRYING },
        clock: &[12, 13, 14, 18, 19, 20],
        budget: Budget { network: 1, crashes: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, TakenOver, LeaseExpired, WonAgain],
        ..RETRY
    },
    Configuration {
        name: "LB: 3 x 3, skip: crash, stop, vanishing lock, another program",
        servers: 3,
        policy: Policy { due: &[12, 14, 19], ..SKIPPING },
        clock: &[12, 13, 14, 18, 19, 20],
        budget: Budget { crashes: 1, stops: 1, vanishings: 1, foreign: 1, ..NO_FAULTS },
        sometimes: &[Won, Raced, LeaseExpired, StoppedHolderSucceeded],
        ..SKIP
    },
    Configuration {
        name: "LC: 2 x 2, skip: 2 network faults, crash",
        budget: Budget { network: 2, crashes: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, WonAgain, WonTooLate],
        ..SKIP
    },
    Configuration {
        name: "LD: 2 x 2, retry: network, crash, stop",
        budget: Budget { network: 1, crashes: 1, stops: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, TakenOver, StoppedHolderSucceeded],
        ..RETRY
    },
    Configuration {
        name: "LM: 2 x 2, instants between milliseconds, slow start: network, stop",
        past_second: 400,
        starts_late: true,
        budget: Budget { network: 1, stops: 1, ..NO_FAULTS },
        sometimes: &[Won, WonTooLate],
        ..SKIP
    },
    Configuration {
        name: "LN: 2 x 1, two wipes: network",
        budget: Budget { claims: 2, wipes: 2, network: 1, ..NO_FAULTS },
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored, OlderHolderRestored],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "LR: 2 x 2, lossy failover: stop",
        budget: Budget { failovers: 1, stops: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..SKIP
    },
    Configuration {
        name: "LT: 2 x 2, no shared lock, wipe: network, crash",
        budget: Budget { wipes: 1, network: 1, crashes: 1, ..NO_FAULTS },
        clock: &[12, 13, 14, 18, 19, 20],
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..SQL
    },
    Configuration {
        name: "Lc: lock, 2 servers, break: network",
        budget: Budget { breaks: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, BrokenLeaseLost, OperatorTooLate],
        ..LOCK
    },
    Configuration {
        name: "Ld: lock, 2 servers, wipe: network",
        budget: Budget { wipes: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, Restored, OlderHolderRestored],
        ..LOCK
    },
    Configuration {
        name: "Le: lock, 2 servers, break, lossy failover",
        budget: Budget { breaks: 1, failovers: 1, ..NO_FAULTS },
        sometimes: &[Won, Restored, BreakUndoneByLostWrites],
        ..LOCK
    },
    Configuration {
        name: "Q: 2 x 1, lossy failover: network",
        budget: Budget { failovers: 1, network: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "R: 2 x 2, lossy failover: stop",
        clock: &[12, 13, 14, 17, 18, 19],
        budget: Budget { failovers: 1, stops: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..SKIP
    },
    Configuration {
        name: "S: 2 x 1, wipe, another program, vanishing lock: network",
        clock: &[12, 13, 17, 18],
        budget: Budget { claims: 2, wipes: 1, foreign: 1, vanishings: 1, network: 1, ..NO_FAULTS },
        caches: true,
        sometimes: &[Won, Restored],
        ..one_tick(SKIP)
    },
    Configuration {
        name: "U: 2 x 1, no shared lock, lossy failover: network, crash",
        budget: Budget { failovers: 1, network: 1, crashes: 1, ..NO_FAULTS },
        clock: &[12, 13, 17, 18, 19],
        caches: true,
        sometimes: &[Won, DoubleStartAfterLostWrites, Restored],
        ..one_tick(SQL)
    },
    Configuration {
        name: "V: 2 x 1, the store's clock +2 s, then -2 s: network",
        budget: Budget { network: 1, ..NO_FAULTS },
        jumps: &[2, -2],
        caches: true,
        ..one_tick(SKIP)
    },
    Configuration {
        name: "e: lock, 2 servers, break, lossy failover",
        budget: Budget { claims: 2, breaks: 1, failovers: 1, ..NO_FAULTS },
        sometimes: &[Won, Restored, BreakUndoneByLostWrites],
        ..LOCK
    },
    Configuration {
        name: "f: lock, 2 servers, another program, vanishing lock: network",
        budget: Budget { claims: 2, foreign: 1, vanishings: 1, network: 1, ..NO_FAULTS },
        sometimes: &[Won, HeldByForeignLock],
        ..LOCK
    },
];
