//! The durations that follow from a lease's ttl.

use std::time::Duration;

/// How long a request may take: several must fit into a lease. A swap that grants a lease is applied within it, or not at
/// all.
pub fn request_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(5))
}

/// How long before its lease may end a holder stops to rely on it.
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(200))
}

/// How long after the end of a lease its successors ask, so that a holder who is about to extend comes first.
pub fn slack(ttl: Duration) -> Duration {
    (ttl / 10).min(Duration::from_millis(200))
}
