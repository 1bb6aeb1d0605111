//! Manual locks between real processes that are stopped and killed while they hold locks, wait and work.
//!
//! One machine has one clock, so what processes write down can be put into one order, and compared with what the store
//! says. Long repetitions, and other stores than Redis, are in variables that `tests/run --soak` sets.
#![cfg(unix)]
#![allow(clippy::cast_precision_loss, reason = "rates of a few thousand")]

mod ground;
mod judge;
mod leader;
mod leftovers;
mod once;
mod process;
mod semaphore;
mod waiting;
mod witness;

/// Also where the other processes begin.
#[test]
fn worker_process_runs_its_job() {
    if process::begin() {
        return;
    }
    leftovers::a_process_that_keeps_its_lock_is_seen_to();
}
