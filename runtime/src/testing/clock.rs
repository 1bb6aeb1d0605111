use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::Timestamp;
use crate::util::clock::Clock;
use crate::util::lock;

/// A clock that follows Tokio's, which can be paused, and that can be set. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Mutex<Shown>>);

/// What the clock showed at one instant, and how fast it is.
#[derive(Clone, Copy, Debug)]
struct Shown {
    at: Instant,
    micros: i64,
    /// Parts per million by which it is too fast.
    drift: i64,
}

impl Shown {
    fn now(self) -> i64 {
        let elapsed = i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = self.micros.saturating_add(elapsed);
        if self.drift == 0 {
            return now;
        }
        now.saturating_add(elapsed.saturating_mul(self.drift) / 1_000_000)
    }
}

impl TestClock {
    /// Creates a clock that shows this time now.
    pub fn starting_at(time: Timestamp) -> Self {
        Self::showing(Shown { at: Instant::now(), micros: time.as_micros(), drift: 0 })
    }

    fn showing(shown: Shown) -> Self {
        Self(Arc::new(Mutex::new(shown)))
    }

    /// Creates another clock that is ahead of this one by this number of milliseconds; behind it if negative.
    #[must_use]
    pub fn off_by(&self, millis: i64) -> Self {
        let shown = *lock(&self.0);
        Self::showing(Shown { micros: shown.micros.saturating_add(millis.saturating_mul(1000)), ..shown })
    }

    /// Moves the clock forward by this number of milliseconds; back if negative.
    pub fn step(&self, millis: i64) {
        let mut shown = lock(&self.0);
        shown.micros = shown.micros.saturating_add(millis.saturating_mul(1000));
    }

    /// Makes the clock too fast from now on, by this many parts per million; too slow if negative.
    pub fn set_drift(&self, parts_per_million: i64) {
        let mut shown = lock(&self.0);
        *shown = Shown { at: Instant::now(), micros: shown.now(), drift: parts_per_million };
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(lock(&self.0).now())
    }
}
