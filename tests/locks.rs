//! Locks by hand: what they promise, on Tokio's paused clock, and on real stores.

mod support;

#[path = "locks/kit.rs"]
mod kit;
#[path = "locks/mutex.rs"]
mod mutex;
