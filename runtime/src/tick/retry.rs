//! The pause before a retry.

use std::time::Duration;

use crate::util::backoff::up_to;

/// The longest pause, unless the first one is longer already.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A random duration below a bound that doubles with each retry: runs that failed for the same reason do not
/// retry at the same time.
pub(crate) fn pause(delay: Duration, retry: u32) -> Duration {
    up_to(bound(delay, retry))
}

fn bound(delay: Duration, retry: u32) -> Duration {
    let doubled = 2_u32.checked_pow(retry.saturating_sub(1)).and_then(|factor| delay.checked_mul(factor));
    doubled.unwrap_or(Duration::MAX).min(LONGEST_PAUSE.max(delay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_doubles_up_to_the_longest_pause() {
        let bounds = [1, 2, 3, 7, 99].map(|retry| bound(Duration::from_secs(5), retry).as_secs());
        assert_eq!(bounds, [5, 10, 20, 300, 300]);
    }

    #[test]
    fn delay_beyond_the_longest_pause_does_not_grow() {
        assert_eq!(bound(Duration::from_secs(900), 4), Duration::from_secs(900));
    }

    #[test]
    fn pauses_spread_over_the_whole_bound() {
        let pauses: Vec<_> = (0..200).map(|_| pause(Duration::from_secs(10), 1)).collect();
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(10)));
        assert!(pauses.iter().any(|pause| *pause < Duration::from_secs(2)));
        assert!(pauses.iter().any(|pause| *pause > Duration::from_secs(8)));
    }
}
