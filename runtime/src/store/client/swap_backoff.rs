//! Pauses between attempts after a refused swap.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::step;
use crate::util::backoff::up_to;

/// Repeated attempts to change one key that other servers change, too.
///
/// A holder does not pause: a late claim only wins later, but a late extension or release costs a lease.
pub(super) struct SwapBackoff {
    is_holder: bool,
    give_up: Instant,
    attempts: u32,
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Number of attempts that are always made.
const ALWAYS: u32 = 8;

impl SwapBackoff {
    pub(super) fn new(step: &'static str, within: Duration) -> Self {
        let is_holder = matches!(step, step::EXTEND | step::RELEASE);
        Self { is_holder, give_up: Instant::now() + within, attempts: 0 }
    }

    /// Counts a refusal, and returns whether it was the last one allowed.
    pub(super) fn is_over(&mut self) -> bool {
        self.attempts += 1;
        self.attempts > ALWAYS && Instant::now() >= self.give_up
    }

    /// Pauses, for longer after every attempt but the first, with jitter so that competitors do not stay in step. Returns
    /// whether it paused.
    pub(super) async fn pauses(&self) -> bool {
        if self.is_holder || self.attempts == 1 {
            return false;
        }
        let longest = Duration::from_micros(500 << self.attempts.min(6)).min(LONGEST_PAUSE);
        sleep(up_to(longest)).await;
        true
    }
}
