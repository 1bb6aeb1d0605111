//! When a connection that was lost, or could not be opened, may be opened again.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{Backoff, up_to};

/// Over so much time a fleet's first attempts are spread after all its servers lost their connections at once.
const SPREAD: Duration = Duration::from_millis(100);

/// Pauses grow up to 0.4–0.8 s: short enough for a keep-alive and for a tick within its grace.
const DOUBLINGS: u32 = 4;

/// A connection that was lost sooner counts as one that could not be opened.
const BRIEF: Duration = Duration::from_secs(1);

/// However little time callers have, they do not make for more than ten attempts a second.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pauses between one store's attempts to open a connection.
pub(super) struct Redial {
    backoff: Backoff,
    pause: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    since: Instant,
    until: Instant,
}

impl Redial {
    pub(super) fn new() -> Self {
        Self { backoff: Backoff::doubling(DOUBLINGS), pause: None }
    }

    /// When the next attempt may be made, unless it may be made now.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.pause.map(|pause| pause.until).filter(|until| *until > Instant::now())
    }

    /// A connection was lost that had been open for so long; `None` if it could not be opened.
    pub(super) fn lost(&mut self, lasted: Option<Duration>) {
        let pause = if lasted.is_some_and(|lasted| lasted >= BRIEF) {
            self.backoff.reset();
            up_to(SPREAD)
        } else {
            self.backoff.next()
        };
        let since = Instant::now();
        self.pause = Some(Pause { since, until: since + pause });
    }

    /// Somebody had less time than the pause takes: the next who comes need not wait as well.
    pub(super) fn hurry(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.until = pause.until.min(Instant::now().max(pause.since + SHORTEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(redial: &Redial) -> Duration {
        redial.not_before().map_or(Duration::ZERO, |until| until - Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_attempt_of_all_is_made_at_once() {
        assert_eq!(Redial::new().not_before(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn first_attempts_after_a_loss_are_spread() {
        let pauses: Vec<_> = (0..200)
            .map(|_| {
                let mut redial = Redial::new();
                redial.lost(Some(BRIEF));
                pause(&redial)
            })
            .collect();
        assert!(pauses.iter().all(|pause| *pause <= SPREAD), "{pauses:?}");
        let (first, last) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(last.abs_diff(*first) > SPREAD / 2, "{first:?} to {last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_less_than_a_second() {
        let mut redial = Redial::new();
        let pauses: Vec<_> = (0..10)
            .map(|_| {
                redial.lost(None);
                pause(&redial)
            })
            .collect();
        let millis = |millis| Duration::from_millis(millis);
        assert!(pauses[0] >= millis(25) && pauses[0] < millis(50), "{pauses:?}");
        assert!(pauses[4..].iter().all(|pause| *pause >= millis(400) && *pause < millis(800)), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_lasts_ends_a_row_of_failures_and_a_brief_one_does_not() {
        for (lasted, longest) in [(BRIEF, SPREAD), (BRIEF / 2, Duration::from_millis(800))] {
            let mut redial = Redial::new();
            (0..10).for_each(|_| redial.lost(None));
            redial.lost(Some(lasted));
            let pause = pause(&redial);
            assert!(pause <= longest && (lasted == BRIEF || pause > SPREAD), "{lasted:?}: {pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_over_when_its_time_has_passed() {
        let mut redial = Redial::new();
        redial.lost(None);
        tokio::time::advance(Duration::from_millis(51)).await;
        assert_eq!(redial.not_before(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_cannot_wait_cuts_a_pause_short_but_not_below_a_tenth_of_a_second() {
        let mut redial = Redial::new();
        (0..10).for_each(|_| redial.lost(None));
        redial.hurry();
        assert_eq!(pause(&redial), SHORTEST);
        tokio::time::advance(SHORTEST).await;
        redial.hurry();
        assert_eq!(redial.not_before(), None);
    }
}
