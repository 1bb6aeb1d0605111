//! The guarantees of manual locks, on Tokio's paused clock and on real stores.

mod support;

#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "support/child.rs"]
mod child;

#[path = "locks/at_hand.rs"]
mod at_hand;
#[path = "locks/cancelled.rs"]
mod cancelled;
#[path = "locks/kit.rs"]
mod kit;
#[path = "locks/leader.rs"]
mod leader;
#[path = "locks/losing.rs"]
mod losing;
#[path = "locks/mistakes.rs"]
mod mistakes;
#[path = "locks/mutex.rs"]
mod mutex;
#[path = "locks/once.rs"]
mod once;
#[path = "locks/operators.rs"]
mod operators;
#[path = "locks/processes.rs"]
mod processes;
#[path = "locks/real.rs"]
mod real;
#[path = "locks/semaphore.rs"]
mod semaphore;
#[path = "locks/shutdown.rs"]
mod shutdown;
#[path = "locks/waiting.rs"]
mod waiting;
