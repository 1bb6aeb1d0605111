//! Locks by hand between real processes that are stopped and killed while they hold, wait and work.
//!
//! One machine has one clock, so what processes write down can be put into one order, and compared with what the store
//! says. Long repetitions, and other stores than Redis, are in variables that `tests/run --soak` sets.
#![cfg(unix)]
#![allow(clippy::cast_precision_loss, reason = "rates of a few thousand")]

mod ground;
mod judge;
mod leader;
pub mod leftovers;
mod once;
pub mod process;
mod semaphore;
mod waiting;
mod witness;
