//! The wall clock as a value, so that tests can set it, and a stopwatch.

use std::time::{Duration, Instant};

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

/// Measures real time, also in a test on Tokio's paused clock: code that blocks does so in real time. In a simulation, where
/// no code blocks, it measures Tokio's, so that every history can be repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stopwatch {
    Real(Instant),
    #[cfg(any(test, feature = "testing"))]
    Simulated(tokio::time::Instant),
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        #[cfg(any(test, feature = "testing"))]
        if super::random::seeded::is_simulated() {
            return Self::Simulated(tokio::time::Instant::now());
        }
        Self::Real(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        match self {
            Self::Real(begun) => begun.elapsed(),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(begun) => begun.elapsed(),
        }
    }
}
