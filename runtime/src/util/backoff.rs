//! Pauses between retries.

use std::time::Duration;

use super::random;

/// Growing pauses with jitter, so that the servers of a fleet do not retry in the same millisecond.
pub(crate) struct Backoff {
    failures: u32,
    doublings: u32,
}

impl Backoff {
    /// 25–50 ms, then doubling up to 0.8–1.6 s.
    pub(crate) fn new() -> Self {
        Self::doubling(5)
    }

    /// 25–50 ms, then doubling this many times.
    pub(crate) fn doubling(times: u32) -> Self {
        Self { failures: 0, doublings: times }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failures > 0
    }

    pub(crate) fn next(&mut self) -> Duration {
        let base = Duration::from_millis(25) * 2_u32.pow(self.failures.min(self.doublings));
        self.failures = self.failures.saturating_add(1);
        base + up_to(base)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random duration below this.
pub(crate) fn up_to(bound: Duration) -> Duration {
    let part = u32::try_from(random() >> 32).unwrap_or(u32::MAX);
    bound.mul_f64(f64::from(part) / 2_f64.powi(32))
}
