//! The pauses between two requests for a lock that is held.

use std::time::Duration;

use crate::util::backoff::up_to;

/// Pauses with jitter, so that the servers of a fleet do not ask in the same millisecond.
#[derive(Default)]
pub(crate) struct PollInterval {
    pauses: u32,
}

/// With notifications, polling only covers a notification that was lost.
const NOTIFIED: Duration = Duration::from_secs(1);

/// Without them, polling is how a release is noticed.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);

impl PollInterval {
    /// 1–2 s, for a store that notifies.
    pub(crate) fn with_notifications(&mut self) -> Duration {
        self.pause(NOTIFIED)
    }

    /// 50–100 ms at first, growing to 250–500 ms.
    pub(crate) fn without_notifications(&mut self) -> Duration {
        self.pause((FIRST * 2_u32.pow(self.pauses.min(4))).min(LONGEST))
    }

    fn pause(&mut self, base: Duration) -> Duration {
        self.pauses += 1;
        base + up_to(base)
    }
}
