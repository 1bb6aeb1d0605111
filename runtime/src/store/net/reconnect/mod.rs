//! When a connection that was lost, or could not be opened, may be opened again.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use crate::util::backoff::{Backoff, up_to};

/// Over so much time a fleet's first attempts are spread after all its servers lost their connections at once.
const SPREAD: Duration = Duration::from_millis(100);

/// Pauses grow up to 0.4–0.8 s: short enough for a keep-alive and for a tick within its grace.
const DOUBLINGS: u32 = 4;

/// A connection that was lost sooner counts as one that could not be opened.
const BRIEF: Duration = Duration::from_secs(1);

/// However little time callers have, they do not make for more than ten attempts a second.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pauses between one store's attempts to open a connection.
pub(crate) struct ReconnectBackoff {
    backoff: Backoff,
    pause: Option<Range<Instant>>,
}

impl ReconnectBackoff {
    pub(crate) fn new() -> Self {
        Self { backoff: Backoff::doubling(DOUBLINGS), pause: None }
    }

    /// When the next attempt may be made, unless it may be made now.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.end).filter(|end| *end > Instant::now())
    }

    /// A connection was lost that had been open for so long; `None` if it could not be opened.
    pub(crate) fn lost(&mut self, lasted: Option<Duration>) {
        let pause = if lasted.is_some_and(|lasted| lasted >= BRIEF) {
            self.backoff.reset();
            up_to(SPREAD)
        } else {
            self.backoff.next()
        };
        let now = Instant::now();
        self.pause = Some(now..now + pause);
    }

    /// Somebody had less time than the pause takes: the next who comes need not wait as well.
    pub(crate) fn shorten(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.end = pause.end.min(Instant::now().max(pause.start + SHORTEST));
        }
    }
}

#[cfg(test)]
mod tests;
