//! When a tick's run starts: how long it is held back, and how late it may be.

use std::collections::HashSet;
use std::time::Duration;

use jobs::Timestamp;
use jobs::schedule::{Overlap, Policy, Schedule};

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(instant.as_microsecond())
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text, None).unwrap()
}

fn jittered(key: &str, jitter: Duration) -> Policy {
    let mut policy = Policy::new(key);
    policy.schedule = Some(schedule("0 * * * *"));
    policy.jitter = Some(jitter);
    policy
}

#[test]
fn the_delay_is_below_the_jitter_and_spread_out() {
    let jitter = Duration::from_secs(100);
    let delays: Vec<_> = (0..1000)
        .map(|hour| {
            jittered("import-products", jitter)
                .delay_of(at("2024-01-01T00:00:00Z") + Duration::from_secs(3600 * hour))
        })
        .collect();
    assert!(delays.iter().all(|delay| *delay < jitter));
    for tenth in 0..10 {
        let slice = Duration::from_secs(10 * tenth)..Duration::from_secs(10 * (tenth + 1));
        let count = delays.iter().filter(|delay| slice.contains(delay)).count();
        assert!((60..140).contains(&count), "{count} of 1000 delays in {slice:?}");
    }
}

#[test]
fn the_delay_follows_from_key_and_tick_alone() {
    let (tick, jitter) = (at("2024-01-01T00:00:00Z"), Duration::from_secs(600));
    assert_eq!(
        jittered("import-products", jitter).delay_of(tick),
        jittered("import-products", jitter).delay_of(tick)
    );
    let keys = (0..50).map(|n| jittered(&format!("job-{n}"), jitter).delay_of(tick));
    assert!(keys.collect::<HashSet<_>>().len() > 45);
    assert_eq!(Policy::new("import-products").delay_of(tick), Duration::ZERO);
}

/// Servers of different versions must agree: this value may never change.
#[test]
fn the_delay_of_a_tick_is_fixed_for_ever() {
    let delay = jittered("import-products", Duration::from_secs(600)).delay_of(at("2024-01-01T00:00:00Z"));
    assert_eq!(delay, Duration::from_millis(378_323));
}

#[test]
fn the_grace_is_the_shorter_of_ttl_and_gap() {
    let (tick, seconds) = (at("2024-01-01T00:00:00Z"), Duration::from_secs);
    let mut policy = Policy::new("import-products");
    assert_eq!(policy.grace_of(tick), seconds(60), "by hand");
    policy.schedule = Some(schedule("0 * * * *"));
    assert_eq!(policy.grace_of(tick), seconds(60));
    policy.schedule = Some(schedule("*/20 * * * * *"));
    assert_eq!(policy.grace_of(tick), seconds(20));
}

#[test]
fn a_queued_tick_has_until_the_next_one() {
    let mut policy = Policy::new("import-products");
    policy.schedule = Some(schedule("0 * * * *"));
    policy.overlap = Overlap::Queue;
    assert_eq!(policy.grace_of(at("2024-01-01T00:00:00Z")), Duration::from_secs(3600));
}

#[test]
fn a_grace_that_is_set_is_the_grace() {
    let mut policy = Policy::new("import-products");
    policy.schedule = Some(schedule("0 * * * *"));
    policy.grace = Some(Duration::from_secs(7200));
    assert_eq!(policy.grace_of(at("2024-01-01T00:00:00Z")), Duration::from_secs(7200));
}
