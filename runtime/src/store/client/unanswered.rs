//! The swaps of a claim that were sent and not answered.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::store::{Look, Swap, Version};

/// Swaps of a claim that were sent and not answered: they may have been applied, or may be applied later.
#[derive(Debug, Default)]
pub(crate) struct UnansweredSwaps {
    token: Arc<str>,
    pub(super) sent: Option<SentSwaps>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentSwaps {
    /// The version that the newest one expects. The store has shown it, so swaps that expect another one are too late. `None`
    /// if one expects no record.
    expected: Option<Version>,
    /// The last instant at which the store applies one of them.
    not_after: Timestamp,
    is_one_of_several: bool,
}

impl UnansweredSwaps {
    /// Creates the list of a claim that has sent nothing yet.
    pub(crate) fn of(token: Arc<str>) -> Self {
        Self { token, sent: None }
    }

    pub(crate) fn exists(&self) -> bool {
        self.sent.is_some()
    }

    /// Adds a swap that is about to be sent, and returns what was unanswered before.
    pub(super) fn add(&mut self, swap: &Swap) -> Option<SentSwaps> {
        let earlier = self.sent;
        // Every claim has a limit, and nothing else is given back.
        if let Some(not_after) = swap.change.not_after {
            self.sent = Some(SentSwaps {
                expected: swap.expected.filter(|_| earlier.is_none_or(|earlier| earlier.expected.is_some())),
                not_after: earlier.map_or(not_after, |earlier| earlier.not_after.max(not_after)),
                is_one_of_several: earlier.is_some(),
            });
        }
        earlier
    }

    /// Empties the list if the look shows that no swap has won or can still win. A version never comes back, but "no record"
    /// may. A store that waits after it has checked the time may commit later, by up to the response timeout.
    pub(super) fn compare(&mut self, look: &Look, within: Duration) {
        let state = &look.state;
        let newest = state.claimant.as_ref().filter(|_| !state.released);
        let has_won = newest.into_iter().chain(&state.slots).any(|lease| lease.token == self.token);
        self.sent.take_if(|sent| {
            let replaced = sent.expected.is_some() && look.version != sent.expected;
            !has_won && (replaced || look.now > sent.not_after + within)
        });
    }

    /// Called after a release of what one of them had won. The record has another version since, or is gone: others that
    /// expect no record can still win.
    pub(super) fn released(&mut self) {
        self.sent.take_if(|sent| sent.expected.is_some() || !sent.is_one_of_several);
    }

    /// Returns the time after which to look for what they won: when their limit has passed, and once more when no commit can be
    /// in progress. `None` if all were answered.
    pub(super) fn ask_again_after(&self, now: Timestamp, within: Duration) -> Option<Duration> {
        let SentSwaps { not_after, .. } = self.sent?;
        let over = if now > not_after { not_after + within } else { not_after };
        Some(over.since(now) + Duration::from_millis(1))
    }
}
