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
pub(crate) struct Stopwatch {
    real: Instant,
    #[cfg(any(test, feature = "testing"))]
    simulated: Option<tokio::time::Instant>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            real: Instant::now(),
            #[cfg(any(test, feature = "testing"))]
            simulated: super::random::seeded::is_simulated().then(tokio::time::Instant::now),
        }
    }

    pub(crate) fn elapsed(self) -> Duration {
        #[cfg(any(test, feature = "testing"))]
        if let Some(simulated) = self.simulated {
            return simulated.elapsed();
        }
        self.real.elapsed()
    }
}
