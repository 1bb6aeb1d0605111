use super::*;

fn pause(backoff: &ReconnectBackoff) -> Duration {
    backoff.not_before().map_or(Duration::ZERO, |until| until - Instant::now())
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_of_all_is_made_at_once() {
    assert_eq!(ReconnectBackoff::new().not_before(), None);
}

#[tokio::test(start_paused = true)]
async fn first_attempts_after_a_loss_are_spread() {
    let pauses: Vec<_> = (0..200)
        .map(|_| {
            let mut backoff = ReconnectBackoff::new();
            backoff.lost(Some(BRIEF));
            pause(&backoff)
        })
        .collect();
    assert!(pauses.iter().all(|pause| *pause <= SPREAD), "{pauses:?}");
    let (first, last) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    assert!(last.abs_diff(*first) > SPREAD / 2, "{first:?} to {last:?}");
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_less_than_a_second() {
    let mut backoff = ReconnectBackoff::new();
    let pauses: Vec<_> = (0..10)
        .map(|_| {
            backoff.lost(None);
            pause(&backoff)
        })
        .collect();
    let millis = |millis| Duration::from_millis(millis);
    assert!(pauses[0] >= millis(25) && pauses[0] < millis(50), "{pauses:?}");
    assert!(pauses[4..].iter().all(|pause| *pause >= millis(400) && *pause < millis(800)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_lasts_ends_a_row_of_failures_and_a_brief_one_does_not() {
    for (lasted, longest) in [(BRIEF, SPREAD), (BRIEF / 2, Duration::from_millis(800))] {
        let mut backoff = ReconnectBackoff::new();
        (0..10).for_each(|_| backoff.lost(None));
        backoff.lost(Some(lasted));
        let pause = pause(&backoff);
        assert!(pause <= longest && (lasted == BRIEF || pause > SPREAD), "{lasted:?}: {pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_over_when_its_time_has_passed() {
    let mut backoff = ReconnectBackoff::new();
    backoff.lost(None);
    tokio::time::advance(Duration::from_millis(51)).await;
    assert_eq!(backoff.not_before(), None);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_cuts_a_pause_short_but_not_below_a_tenth_of_a_second() {
    let mut backoff = ReconnectBackoff::new();
    (0..10).for_each(|_| backoff.lost(None));
    backoff.shorten();
    assert_eq!(pause(&backoff), SHORTEST);
    tokio::time::advance(SHORTEST).await;
    backoff.shorten();
    assert_eq!(backoff.not_before(), None);
}
