//! What follows a swap that was refused.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::util::random;

/// Decisions on one key that the key's changes keep undoing.
///
/// Who holds a lease does not pause: a claim that is late wins later, an extension or a release that is late costs a lease.
pub(super) struct Contention {
    is_holder: bool,
    give_up: Instant,
    attempts: u32,
}

/// What follows a swap that was refused.
pub(super) enum Next {
    /// The key is as it was shown with the refusal.
    Decide,
    /// It may have changed during the pause: a swap that expects what was shown before would be refused again.
    Look,
    GiveUp,
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// So often the key may change before time counts.
const ALWAYS: u32 = 8;

impl Contention {
    pub(super) fn new(step: &'static str, within: Duration) -> Self {
        let is_holder = matches!(step, "extend" | "release");
        Self { is_holder, give_up: Instant::now() + within, attempts: 0 }
    }

    /// A pause that grows with every attempt but the first, with jitter: competitors must not stay in step.
    pub(super) async fn pause(&mut self) -> Next {
        self.attempts += 1;
        if self.attempts > ALWAYS && Instant::now() >= self.give_up {
            return Next::GiveUp;
        }
        if self.is_holder || self.attempts == 1 {
            return Next::Decide;
        }
        let longest = Duration::from_micros(500 << self.attempts.min(6)).min(LONGEST_PAUSE);
        let part = u32::try_from(random() >> 40).unwrap_or_default() % 1000;
        sleep(longest * part / 1000).await;
        Next::Look
    }
}
