//! Pauses before a connection that was lost, or could not be opened, is opened again.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use crate::util::backoff::{Backoff, up_to};

/// The first attempts are spread over this time, since all servers of a fleet may lose their connections at once.
const SPREAD: Duration = Duration::from_millis(100);

/// Pauses grow to 0.4–0.8 s: short enough for a keep-alive and for a tick within its grace.
const DOUBLINGS: u32 = 4;

/// A connection that was lost sooner counts as one that could not be opened.
const BRIEF: Duration = Duration::from_secs(1);

/// Shortest pause: callers with little time cause at most ten attempts a second.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pauses between the attempts of one store to open a connection.
pub(crate) struct ReconnectBackoff {
    backoff: Backoff,
    pause: Option<Range<Instant>>,
}

impl ReconnectBackoff {
    pub(crate) fn new() -> Self {
        Self { backoff: Backoff::doubling(DOUBLINGS), pause: None }
    }

    /// Returns the instant of the next attempt, unless it may be made now.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.end).filter(|end| *end > Instant::now())
    }

    /// Begins a pause: a connection was lost after this time, or could not be opened (`None`).
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

    /// Shortens the pause: a caller had less time than it takes, and the next one need not wait as well.
    pub(crate) fn shorten(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.end = pause.end.min(Instant::now().max(pause.start + SHORTEST));
        }
    }
}

#[cfg(test)]
mod tests;
