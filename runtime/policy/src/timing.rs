//! The durations that follow from a lease's ttl.

use std::time::Duration;

/// The timeout of a request: several must fit into a lease. A swap that grants a lease is applied within it,
/// or not at all.
pub fn request_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(5))
}

/// How long before the end of its lease a holder stops relying on it.
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(200))
}

/// How long after the end of a lease its successors claim, so that a holder that is about to extend it comes
/// first.
pub fn slack(ttl: Duration) -> Duration {
    (ttl / 10).min(Duration::from_millis(200))
}
