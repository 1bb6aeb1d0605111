use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

use crate::Timestamp;
use crate::util::clock::Clock;

/// A clock that follows Tokio's, which can be paused, and that can be set. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock {
    begun: Instant,
    shown: Arc<AtomicI64>,
}

impl TestClock {
    /// Creates a clock that shows this time now.
    pub fn starting_at(time: Timestamp) -> Self {
        Self { begun: Instant::now(), shown: Arc::new(AtomicI64::new(time.as_micros())) }
    }

    /// Creates another clock that is ahead of this one by this number of milliseconds; behind it if negative.
    #[must_use]
    pub fn off_by(&self, millis: i64) -> Self {
        let shown = self.shown.load(Ordering::SeqCst).saturating_add(millis.saturating_mul(1000));
        Self { begun: self.begun, shown: Arc::new(AtomicI64::new(shown)) }
    }

    /// Moves the clock forward by this number of milliseconds; back if negative.
    pub fn step(&self, millis: i64) {
        self.shown.fetch_add(millis.saturating_mul(1000), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.shown.load(Ordering::SeqCst)) + self.begun.elapsed()
    }
}
