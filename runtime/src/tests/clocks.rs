use std::task::{Context, Poll, Waker};

use super::*;
use crate::clock::Clock;
use crate::lease::store_clock::{ClockReading, StoreClock};
use crate::lease::validity::Validity;

/// Two jobs on a server whose clock is fast: the first teaches it the time, the second must profit.
async fn ticks_of_the_second_job(fast_by_secs: i64) -> Vec<u64> {
    let mut link = Link::new(TestClock::new());
    link.latency = Duration::from_millis(2);
    let server = server("fast", &link, TestClock::skewed_by_secs(fast_by_secs));
    let runs = Runs::default();
    let teacher =
        Job::builder("teacher").every("60s").ttl(Duration::from_secs(30)).run(|_| async {}).build().unwrap();
    schedule_all(&server, vec![teacher, runs.noting(job("30m", 30))]);
    seconds(1806).await;
    server.shut_down();
    runs.ticks()
}

#[tokio::test(start_paused = true)]
async fn clock_correction_learned_from_one_claim_applies_to_every_job() {
    for _ in 0..20 {
        assert_eq!(ticks_of_the_second_job(50 * 60).await, [1800]);
        assert_eq!(ticks_of_the_second_job(170 * 60).await, [1800]);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_reply_after_a_quick_one_does_not_step_the_clock() {
    let clock = TestClock::new();
    let time = StoreClock::new(clock.clone());
    let (slow_sent, slow_time) = (Instant::now(), clock.now());
    tokio::time::sleep(Duration::from_millis(4800)).await;
    time.learn(Instant::now(), clock.now());
    tokio::time::sleep(Duration::from_millis(100)).await;
    time.learn(slow_sent, slow_time);
    assert!(clock.now().since(time.now()) < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn store_is_asked_until_it_answers_after_the_wall_clock_jumps() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("sleeper", &link, clock.clone());
    tokio::spawn(watch_clock(server.clone()));
    seconds(61).await;
    link.cut.store(true, Ordering::SeqCst);
    clock.step_secs(3600);
    seconds(6).await;
    link.cut.store(false, Ordering::SeqCst);
    seconds(6).await;
    assert!(clock.now().since(server.time.now()) < Duration::from_secs(1), "not a minute later");
}

#[tokio::test(start_paused = true)]
async fn clock_corrections_do_not_multiply_claims() {
    let clock = TestClock::new();
    let mut link = Link::new(clock.clone());
    link.latency = Duration::from_millis(2);
    let server = server("server", &link, clock);
    let runs = Runs::default();
    let late_and_patient = job("60s", 30).jitter(Duration::from_secs(59)).grace(Duration::from_secs(3600));
    schedule(&server, runs.noting(late_and_patient));
    for _ in 0..60 {
        seconds(61).await;
        server.time.wake_sleepers();
    }
    let claims = link.claim_requests();
    assert!(claims < 300, "{claims} claims for 60 ticks and 60 corrections");
}

#[tokio::test(start_paused = true)]
async fn job_with_a_grace_beyond_the_calendar_still_runs_after_a_clock_correction() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("* * * * *", 30).grace(Duration::from_secs(20_000 * 365 * 86_400))));
    seconds(61).await;
    server.time.wake_sleepers();
    seconds(120).await;
    assert_eq!(runs.ticks(), [60, 120, 180]);
}

/// A look is on its way over one connection when an extension is sent, and answered, over another one. Then
/// the machine is paused with both of its clocks; the look is answered when it continues.
#[tokio::test(start_paused = true)]
async fn pause_shown_by_an_earlier_request_makes_a_later_confirmation_doubtful() {
    let clock = TestClock::new();
    let time = StoreClock::new(clock.clone());
    time.learn(Instant::now(), clock.now());
    seconds(1).await;
    let look_sent = Instant::now();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let (extension_sent, ttl) = (time.read_clocks(), Duration::from_secs(30));
    time.learn(extension_sent.steady, clock.now());
    let validity = Validity::new(&time, true, ttl / 10, extension_sent, ttl);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(validity.is_certain());
    time.learn(look_sent, clock.now() + Duration::from_secs(60));
    assert!(validity.is_doubtful(), "its lease has ended a while ago");
}

/// A wall clock that takes some time to read.
struct SlowClock(Duration);

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        std::thread::sleep(self.0);
        now
    }
}

/// The process is stopped after it has read the time, and continues when its lease is over.
#[tokio::test]
async fn process_that_is_stopped_while_it_reads_the_clocks_finds_its_lease_lost() {
    let poll = |stopped_for, lease| {
        let (stopped_for, lease) = (Duration::from_millis(stopped_for), Duration::from_millis(lease));
        let time = StoreClock::new(Arc::new(SlowClock(stopped_for)));
        let sent = ClockReading { steady: Instant::now(), wall: Timestamp::now() };
        let validity = Validity::new(&time, true, lease / 10, sent, lease);
        validity.poll_valid(&Context::from_waker(Waker::noop()))
    };
    assert_eq!(poll(0, 60_000), Poll::Ready(true));
    assert_eq!(poll(700, 600), Poll::Ready(false));
}
