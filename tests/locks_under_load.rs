//! Manual locks between real processes that are stopped and killed while they hold locks, wait and work.
//!
//! One machine has one clock, so what processes write down can be put into one order, and compared with what the store
//! says. Long repetitions, and other stores than Redis, are in variables that `tests/run --soak` sets.
#![cfg(unix)]
#![allow(clippy::cast_precision_loss, reason = "rates of a few thousand")]

mod support;

#[path = "locks_under_load/ground.rs"]
mod ground;
#[path = "locks_under_load/judge.rs"]
mod judge;
#[path = "locks_under_load/leader.rs"]
mod leader;
#[path = "locks_under_load/leftovers.rs"]
mod leftovers;
#[path = "locks_under_load/once.rs"]
mod once;
#[path = "locks_under_load/process.rs"]
mod process;
#[path = "locks_under_load/semaphore.rs"]
mod semaphore;
#[path = "locks_under_load/waiting.rs"]
mod waiting;
#[path = "locks_under_load/witness.rs"]
mod witness;

/// Also where the other processes begin.
#[test]
fn a_process_of_its_own_runs_the_job() {
    if process::begin() {
        return;
    }
    leftovers::a_process_that_keeps_its_lock_is_seen_to();
}
