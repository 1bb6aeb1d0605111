//! The wall clock as a value, so that tests can set it.

use crate::Timestamp;

/// A wall clock. Durations are measured by Tokio's clock, which tests can pause.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
