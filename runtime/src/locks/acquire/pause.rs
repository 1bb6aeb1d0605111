//! How often the store is asked for a lock that somebody holds.

use std::time::Duration;

use uuid::Uuid;

/// Pauses with jitter, so that a fleet does not ask in the same millisecond.
#[derive(Default)]
pub(crate) struct Pause {
    asked: u32,
}

/// With a store that tells, asking is only for messages that were lost.
const TOLD: Duration = Duration::from_secs(1);

/// Else it is how the handover is noticed.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);

impl Pause {
    /// 1–2 s if the store tells; else 50–100 ms, growing to 250–500 ms.
    pub(crate) fn next(&mut self, is_told: bool) -> Duration {
        let base = if is_told { TOLD } else { (FIRST * 2_u32.pow(self.asked.min(4))).min(LONGEST) };
        self.asked += 1;
        base + base * u32::from(Uuid::new_v4().as_bytes()[0]) / 256
    }
}
