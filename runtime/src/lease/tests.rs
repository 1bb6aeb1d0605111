//! The estimate of the store's clock, and the end of a lease, to the microsecond. Tokio's paused clock stands still unless it
//! is advanced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, advance};

use super::store_clock::StoreClock;
use super::validity::Validity;
use crate::Timestamp;
use crate::testing::TestClock;

const NOON: Timestamp = Timestamp::from_micros(1_800_014_400_000_000);
const MICRO: Duration = Duration::from_micros(1);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An estimate that is exact now. After 5,000 s it may be wrong by a second.
fn exact() -> (StoreClock, TestClock) {
    let wall = TestClock::starting_at(NOON);
    let time = StoreClock::new(Arc::new(wall.clone()));
    time.learn(Instant::now(), NOON);
    (time, wall)
}

/// Learns from a reply that took this long and shows a time this far ahead of the estimate. Returns by how much the estimate
/// has changed.
fn learn(time: &StoreClock, took: Duration, ahead: Duration) -> Duration {
    let known = time.now();
    time.learn(Instant::now() - took, known + ahead);
    time.now().since(known)
}

#[tokio::test(start_paused = true)]
async fn slow_reply_corrects_the_clock_only_beyond_its_own_error_and_a_step() {
    let (time, _) = exact();
    assert_eq!(learn(&time, millis(100), millis(150)), Duration::ZERO);
    assert_eq!(learn(&time, millis(100), millis(150) + MICRO), millis(150) + MICRO);
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_as_exact_as_the_estimate_replaces_it() {
    let (time, _) = exact();
    advance(secs(5000)).await;
    assert_eq!(learn(&time, secs(1) + MICRO, millis(30)), Duration::ZERO);
    assert_eq!(learn(&time, secs(1), millis(30)), millis(30));
    assert_eq!(learn(&time, secs(1) + MICRO, millis(10)), Duration::ZERO);
    advance(secs(5000)).await;
    assert_eq!(
        learn(&time, secs(2), millis(10)),
        millis(10),
        "the error of the last reply, and the drift since"
    );
}

#[tokio::test(start_paused = true)]
async fn store_has_jumped_ahead_if_it_is_ahead_by_more_than_both_errors_and_200_ms() {
    for (ahead, has_jumped) in [(millis(301), false), (millis(301) + MICRO, true)] {
        let (time, _) = exact();
        let confirmed = Instant::now();
        advance(secs(5)).await;
        learn(&time, millis(100), ahead);
        assert_eq!(time.forward_jumps().makes_doubtful(confirmed), has_jumped, "{ahead:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn jump_makes_confirmations_of_earlier_requests_doubtful_but_not_its_own() {
    let (time, _) = exact();
    advance(secs(5)).await;
    learn(&time, millis(100), secs(10));
    let (jumps, now) = (time.forward_jumps(), Instant::now());
    assert!(jumps.makes_doubtful(now - millis(101)) && jumps.makes_doubtful(now - MICRO));
    assert!(!jumps.makes_doubtful(now - millis(100)), "the reply that showed it");
    assert!(!jumps.makes_doubtful(now) && !jumps.makes_doubtful(now + MICRO), "sent after it");
}

#[tokio::test(start_paused = true)]
async fn sleepers_are_woken_by_a_step_of_more_than_50_ms() {
    let (time, _) = exact();
    advance(secs(5000)).await;
    let mut corrections = time.corrections();
    learn(&time, Duration::ZERO, millis(50));
    assert!(!corrections.has_changed().unwrap());
    learn(&time, Duration::ZERO, millis(50) + MICRO);
    assert!(corrections.has_changed().unwrap());
    corrections.mark_unchanged();
    assert_eq!(learn(&time, secs(1), millis(500)), Duration::ZERO);
    assert!(!corrections.has_changed().unwrap(), "the reply was too slow to correct the clock");
}

#[tokio::test(start_paused = true)]
async fn store_shows_a_time_after_the_rest_until_then() {
    let (time, _) = exact();
    advance(secs(5)).await;
    assert_eq!(time.instant_of(NOON + secs(7)), Instant::now() + secs(2));
    assert_eq!(time.instant_of(NOON), Instant::now());
}

/// A lease that lasts for 30 s from now on, with a margin of 3 s.
fn lease(kept_alive: bool) -> (Validity, StoreClock, TestClock) {
    let (time, wall) = exact();
    (Validity::new(&time, kept_alive, secs(3), time.read_clocks(), secs(30)), time, wall)
}

#[tokio::test(start_paused = true)]
async fn lease_is_lost_a_margin_before_its_end() {
    for kept_alive in [true, false] {
        let (validity, ..) = lease(kept_alive);
        advance(Duration::from_micros(26_999_999)).await;
        assert!(validity.is_certain() && !validity.is_lost() && !validity.is_doubtful());
        advance(MICRO).await;
        assert!(!validity.is_certain() && validity.is_lost() && !validity.is_doubtful());
    }
}

#[tokio::test(start_paused = true)]
async fn last_confirmation_counts_even_if_it_is_shorter() {
    let (validity, time, _) = lease(true);
    advance(secs(10)).await;
    validity.confirm(time.read_clocks(), secs(30));
    assert_eq!(validity.deadline(), Instant::now() + secs(27));
    validity.confirm(time.read_clocks(), secs(8));
    assert_eq!(validity.deadline(), Instant::now() + secs(5));
    assert_eq!(validity.confirmed_at(), Instant::now());
}

#[tokio::test(start_paused = true)]
async fn shorter_ttl_counts_at_once_and_a_longer_one_once_it_is_confirmed() {
    let (validity, time, _) = lease(true);
    let begun = Instant::now();
    advance(secs(5)).await;
    validity.set_ttl(time.read_clocks(), secs(6), secs(60));
    assert_eq!(validity.deadline(), begun + secs(27));
    validity.set_ttl(time.read_clocks(), secs(2), secs(20));
    assert_eq!(validity.deadline(), begun + secs(23));
    validity.confirm(time.read_clocks(), secs(20));
    assert_eq!(validity.deadline(), begun + secs(23));
}

#[tokio::test(start_paused = true)]
async fn suspend_of_more_than_the_margin_makes_a_lease_doubtful_or_ends_it() {
    for kept_alive in [true, false] {
        let (validity, _, wall) = lease(kept_alive);
        advance(secs(5)).await;
        wall.step(3000);
        assert!(validity.is_certain() && !validity.is_lost());
        wall.step(1);
        assert!(!validity.is_certain());
        assert_eq!((validity.is_doubtful(), validity.is_lost()), (kept_alive, !kept_alive));
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn run_in_doubt_waits_until_its_lease_is_confirmed_or_lost() {
    for is_kept in [true, false] {
        let (validity, time, wall) = lease(true);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let context = Context::from_waker(&waker);
        assert_eq!(validity.poll_valid(&context), Poll::Ready(true));
        wall.step(5000);
        assert_eq!(validity.poll_valid(&context), Poll::Pending);
        validity.in_doubt().await;
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        if is_kept {
            validity.confirm(time.read_clocks(), secs(30));
        } else {
            validity.lose();
            validity.lost().await;
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert_eq!(validity.poll_valid(&context), Poll::Ready(is_kept));
    }
}
