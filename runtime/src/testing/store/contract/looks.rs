//! Looks, and the store's clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::store::{FenceChange, Look, Note, Topic};

use super::super::Subject;
use super::super::test_key::{TestKey, numbered, with_fence};

pub(super) async fn unknown_key_shows_nothing(subject: &Subject) {
    let key = TestKey::of(subject);
    let look = key.look().await;
    assert_eq!(look, Look::nothing(look.now));
    let records = key.records().await;
    assert!(records.runs.is_empty() && records.skips.is_empty(), "{records:?}");
}

pub(super) async fn look_writes_nothing(subject: &Subject) {
    let key = TestKey::of(subject);
    key.look().await;
    assert_eq!(key.list().await, [], "a key that was looked at is no key of the store");
    key.write(numbered(1)).await;
    let before = key.look().await;
    let after = key.look().await;
    assert_eq!(Look { now: before.now, ..after }, before);
}

pub(super) async fn applied_swap_is_shown_by_the_next_look(subject: &Subject) {
    let key = TestKey::of(subject);
    for number in 0..50 {
        let change = with_fence(FenceChange::Next, numbered(number));
        let swapped = key.write(change.clone()).await;
        let look = key.look().await;
        assert_eq!((look.version, look.fence), (Some(swapped.version), swapped.fence));
        assert_eq!(Some(look.state), change.state);
    }
}

/// A look between two swaps shows the one or the other, and no mixture.
pub(super) async fn version_fence_and_state_of_a_look_belong_together(subject: &Subject) {
    let key = TestKey::of(subject);
    let base = key.write(with_fence(FenceChange::Next, numbered(0))).await.fence;
    let writer = {
        let key = key.clone();
        tokio::spawn(async move {
            for number in 1..=60 {
                let fence = FenceChange::AtLeast(base + i64::try_from(number).expect("a small number"));
                key.write(with_fence(fence, numbered(number))).await;
            }
        })
    };
    let mut versions = std::collections::HashMap::new();
    while !writer.is_finished() {
        let look = key.look().await;
        let number = i64::try_from(look.state.stats.runs).expect("a small number");
        assert_eq!(look.fence, base + number, "{look:?}");
        let version = look.version.expect("a record");
        assert_eq!(*versions.entry(version).or_insert(number), number, "{look:?}");
        tokio::task::yield_now().await;
    }
    writer.await.expect("every swap is applied");
}

/// A store may answer several looks by one request.
pub(super) async fn looks_at_the_same_time_show_their_own_keys(subject: &Subject) {
    let keys: Vec<_> = (0..40).map(|number| TestKey::named(subject, &format!("key-{number}"))).collect();
    // The first one has no record.
    for (number, key) in (0..).zip(&keys).skip(1) {
        key.write(numbered(number)).await;
    }
    let mut looks = JoinSet::new();
    // Some keys are looked at twice.
    for (number, key) in (0_u64..).zip(keys.iter().cloned()).chain((0..).zip(keys[..10].iter().cloned())) {
        looks.spawn(async move { (number, key.look().await) });
    }
    while let Some(looked) = looks.join_next().await {
        let (number, look) = looked.expect("every look is answered");
        assert_eq!((look.version.is_some(), look.state.stats.runs), (number > 0, number), "{look:?}");
    }
}

pub(super) async fn every_answer_shows_the_same_clock(subject: &Subject) {
    let key = TestKey::of(subject);
    let note = Note { name: "a".to_owned(), text: Arc::from("") };
    let mut seen = Vec::new();
    for number in 0..10 {
        seen.push(key.look().await.now);
        seen.push(key.write(numbered(number)).await.now);
        seen.push(key.store.put_note(Topic::Servers, &note, Duration::from_secs(1)).await.expect("put_note"));
        seen.push(key.store.notes(Topic::Servers).await.expect("notes").now);
    }
    assert!(seen.is_sorted(), "the clock goes back: {seen:?}");
    assert!(seen.iter().any(|now| now.as_micros() % 1_000 != 0), "whole milliseconds only: {seen:?}");
}

pub(super) async fn clock_advances_with_time(subject: &Subject) {
    let key = TestKey::of(subject);
    let (before, begun) = (key.look().await.now, std::time::Instant::now());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let passed = key.look().await.now.since(before);
    let most = begun.elapsed() + Duration::from_secs(1);
    assert!(passed >= Duration::from_millis(45) && passed <= most, "{passed:?} of at most {most:?}");
}
