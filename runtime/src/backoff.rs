//! How long to wait after the store did not answer.

use std::time::Duration;

use uuid::Uuid;

/// Growing pauses with jitter, so that a fleet does not come back in the same millisecond.
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { failures: 0 }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failures > 0
    }

    /// 25–50 ms, then doubling up to 0.8–1.6 s.
    pub(crate) fn next(&mut self) -> Duration {
        let base = Duration::from_millis(25) * 2_u32.pow(self.failures.min(5));
        self.failures += 1;
        base + base * u32::from(Uuid::new_v4().as_bytes()[0]) / 256
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
