//! What follows a swap that was refused.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::util::random;

/// Decisions on one key that the key's changes keep undoing.
///
/// Who holds a lease does not pause: a claim that is late wins later, an extension or a release that is late costs a lease.
pub(super) struct SwapBackoff {
    is_holder: bool,
    give_up: Instant,
    attempts: u32,
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// So often the key may change before time counts.
const ALWAYS: u32 = 8;

impl SwapBackoff {
    pub(super) fn new(step: &'static str, within: Duration) -> Self {
        let is_holder = matches!(step, "extend" | "release");
        Self { is_holder, give_up: Instant::now() + within, attempts: 0 }
    }

    /// Whether one more refusal is one too many.
    pub(super) fn is_over(&mut self) -> bool {
        self.attempts += 1;
        self.attempts > ALWAYS && Instant::now() >= self.give_up
    }

    /// A pause that grows with every attempt but the first, with jitter: competitors must not stay in step. `false` if there
    /// is none.
    pub(super) async fn pauses(&self) -> bool {
        if self.is_holder || self.attempts == 1 {
            return false;
        }
        let longest = Duration::from_micros(500 << self.attempts.min(6)).min(LONGEST_PAUSE);
        let part = u32::try_from(random() >> 40).unwrap_or_default() % 1000;
        sleep(longest * part / 1000).await;
        true
    }
}
