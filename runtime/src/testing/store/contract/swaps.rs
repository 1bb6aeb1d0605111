//! Swaps: all of a change, or nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::store::{Change, FenceChange, KeyState, LockChange, Look, Swap, SwapReply, Version};
use crate::util::random;

use super::super::Subject;
use super::super::test_key::{TEXTS, TestKey, deletion, fences, from, numbered, run, state, with_fence};
use super::full_state::full_state;

const RACERS: u64 = 16;
const ROUNDS: u64 = 5;

pub(super) async fn swap_that_expects_no_record_creates_it_once(subject: &Subject) {
    let key = TestKey::of(subject);
    let empty = key.look().await;
    let swapped = key.applied(&from(&empty, numbered(1))).await;
    let look = key.refused(&from(&empty, numbered(2))).await;
    assert_eq!((look.version, &look.state), (Some(swapped.version), &state(1)));
}

pub(super) async fn swap_from_an_older_version_is_refused(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(1)).await;
    let old = key.look().await;
    let newer = key.write(numbered(2)).await;
    let look = key.refused(&from(&old, numbered(3))).await;
    assert_eq!((look.version, &look.state), (Some(newer.version), &state(2)));
}

pub(super) async fn deletion_of_an_older_version_is_refused(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(1)).await;
    let old = key.look().await;
    let newer = key.write(numbered(2)).await;
    let look = key.refused(&from(&old, deletion())).await;
    assert_eq!((look.version, &look.state), (Some(newer.version), &state(2)));
    assert_eq!(key.look().await.version, Some(newer.version));
}

pub(super) async fn swap_that_expects_a_record_is_refused_without_one(subject: &Subject) {
    let key = TestKey::of(subject);
    let version = Version { at: Timestamp::from_micros(1), nonce: 1 };
    for change in [numbered(1), deletion()] {
        let swap = Swap { expected: Some(version), expected_lock: None, nonce: 2, change };
        let look = key.refused(&swap).await;
        assert_eq!(look, Look::nothing(look.now));
    }
    assert_eq!(key.look().await.version, None);
}

pub(super) async fn refused_swap_changes_nothing_and_shows_the_key(subject: &Subject) {
    let key = TestKey::of(subject);
    let first = key.look().await;
    key.write(Change { records: vec![run(1)], ..with_fence(FenceChange::Next, numbered(1)) }).await;
    let (before, records) = (key.look().await, key.records().await);

    let change = Change {
        records: vec![run(2)],
        fence: FenceChange::Next,
        lock: LockChange::Set { token: "refused".into(), until: before.now + Duration::from_secs(30) },
        notify: true,
        ..numbered(2)
    };
    let early = Change { not_before: Some(before.now + Duration::from_secs(60)), ..change.clone() };
    let late = Change { not_after: Some(before.now - Duration::from_secs(60)), ..change.clone() };
    let late_deletion = Change { state: None, ..late.clone() };
    let refused = [
        from(&first, change.clone()),
        from(&first, deletion()),
        from(&before, early),
        from(&before, late),
        from(&before, late_deletion),
    ];
    for swap in refused {
        let shown = key.refused(&swap).await;
        assert_eq!(Look { now: before.now, ..shown }, before, "after {swap:?}");
        assert_eq!(Look { now: before.now, ..key.look().await }, before, "after {swap:?}");
        assert_eq!(key.records().await, records, "after {swap:?}");
    }
}

pub(super) async fn copy_of_an_applied_swap_is_refused(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(1)).await;
    let swap = from(&key.look().await, Change { records: vec![run(2)], ..numbered(2) });
    let swapped = key.applied(&swap).await;
    assert_eq!(key.refused(&swap).await.version, Some(swapped.version));
    key.write(deletion()).await;
    key.refused(&swap).await;
    key.write(numbered(3)).await;
    key.refused(&swap).await;
    assert_eq!((key.look().await.state, fences(&key.records().await)), (state(3), vec![]));
}

/// Sends all swaps at once, and returns the number of the one that was applied.
async fn race(key: &TestKey, look: &Look) -> u64 {
    let mut racing = tokio::task::JoinSet::new();
    for number in 0..RACERS {
        let (key, swap) = (key.clone(), from(look, Change { records: vec![run(1)], ..numbered(number) }));
        racing.spawn(async move { matches!(key.swap(&swap).await, SwapReply::Swapped(_)).then_some(number) });
    }
    let applied: Vec<_> = racing.join_all().await.into_iter().flatten().collect();
    let [one] = applied.as_slice() else { panic!("one of {RACERS} swaps should be applied: {applied:?}") };
    assert_eq!(key.look().await.state, state(*one), "the record should be that of the applied swap");
    *one
}

pub(super) async fn one_of_many_concurrent_swaps_from_a_version_is_applied(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(0)).await;
    for round in 1..=ROUNDS {
        race(&key, &key.look().await).await;
        assert_eq!(key.records().await.runs.len() as u64, round);
    }
}

pub(super) async fn one_of_many_concurrent_creations_is_applied(subject: &Subject) {
    let key = TestKey::of(subject);
    for _ in 0..ROUNDS {
        race(&key, &key.look().await).await;
        assert_eq!(key.records().await.runs.len(), 1);
        key.write(deletion()).await;
    }
}

pub(super) async fn no_update_of_concurrent_writers_is_lost(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(0)).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let key = key.clone();
        writers.spawn(async move {
            for _ in 0..10 {
                let mut look = key.look().await;
                while let SwapReply::Changed(changed) = {
                    let swap = from(&look, numbered(look.state.stats.runs + 1));
                    key.swap(&swap).await
                } {
                    look = changed;
                }
            }
        });
    }
    writers.join_all().await;
    assert_eq!(key.look().await.state.stats.runs, 40);
}

pub(super) async fn version_is_the_clock_at_the_swap_and_the_nonce(subject: &Subject) {
    let key = TestKey::of(subject);
    for nonce in [0, 1, u64::MAX] {
        let look = key.look().await;
        let swapped = key.applied(&Swap { nonce, ..from(&look, numbered(nonce)) }).await;
        assert_eq!(swapped.version, Version { at: swapped.now, nonce });
        assert!(swapped.now >= look.now, "{swapped:?} after {look:?}");
        assert_eq!(key.look().await.version, Some(swapped.version));
    }
}

pub(super) async fn version_is_never_used_again(subject: &Subject) {
    let key = TestKey::of(subject);
    let mut versions = HashSet::new();
    for number in 0..20 {
        // Each record is deleted, and the nonce is the same: only the clock is left to differ.
        let swap = Swap { nonce: 7, ..from(&key.look().await, numbered(number)) };
        assert!(versions.insert(key.applied(&swap).await.version), "{versions:?}");
        if number % 2 == 0 {
            let swap = Swap { nonce: 7, ..from(&key.look().await, deletion()) };
            assert!(versions.insert(key.applied(&swap).await.version), "{versions:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) async fn not_before_is_checked_by_the_stores_clock(subject: &Subject) {
    let key = TestKey::of(subject);
    for change in [numbered(1), numbered(2), deletion()] {
        let look = key.look().await;
        let limit = look.now + Duration::from_millis(400);
        let swap = from(&look, Change { not_before: Some(limit), ..change.clone() });
        let refused = key.swap(&swap).await;
        if let SwapReply::Swapped(swapped) = refused {
            assert!(swapped.now >= limit, "applied at {} although not before {limit}", swapped.now);
            continue; // The machine stalled.
        }
        key.wait_until_after(limit).await;
        key.applied(&swap).await;
    }
    let look = key.look().await;
    key.applied(&from(&look, Change { not_before: Some(look.now), ..numbered(3) })).await;
}

pub(super) async fn not_after_is_checked_by_the_stores_clock(subject: &Subject) {
    let key = TestKey::of(subject);
    for change in [numbered(1), numbered(2), deletion()] {
        let look = key.look().await;
        let limit = look.now + Duration::from_millis(100);
        let swap = from(&look, Change { not_after: Some(limit), ..change.clone() });
        key.wait_until_after(limit).await;
        key.refused(&swap).await;
        let long = look.now + Duration::from_secs(60);
        key.applied(&Swap { change: Change { not_after: Some(long), ..change }, ..swap }).await;
    }
}

pub(super) async fn deletion_leaves_nothing(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(Change { records: vec![run(1)], ..with_fence(FenceChange::Next, numbered(1)) }).await;
    key.write(deletion()).await;
    let look = key.look().await;
    assert_eq!(look, Look::nothing(look.now));
    assert!(fences(&key.records().await).is_empty());
    assert_eq!(key.list().await, []);
    key.write(numbered(2)).await;
    assert!(fences(&key.records().await).is_empty(), "a new record has none of the old run records");
}

pub(super) async fn state_comes_back_with_every_field(subject: &Subject) {
    let key = TestKey::of(subject);
    let expires = Some(key.look().await.now + Duration::from_secs(3_600));
    let mut states =
        vec![KeyState { expires, ..KeyState::default() }, KeyState { expires: None, ..KeyState::default() }];
    states.extend(TEXTS.iter().map(|text| full_state(text)));
    states.push(full_state(&"many bytes ☃ ".repeat(5_000)));
    for state in states {
        let state = Arc::new(state);
        let change = Change { state: Some(Arc::clone(&state)), ..Change::default() };
        key.write(change).await;
        assert_eq!(key.look().await.state, state);
    }
}

/// The sender of a swap may never see its answer. Then it looks, and sends the same swap again if it was not applied.
pub(super) async fn swap_that_is_repeated_after_a_lost_answer_is_applied_once(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(0)).await;
    for number in 1..=30 {
        let look = key.look().await;
        let fence = i64::try_from(number).expect("a small number");
        let change = Change { records: vec![run(fence)], keep: 100, ..numbered(number) };
        let swap = from(&look, change);
        let patience = Duration::from_micros(random() % 1_500);
        let _lost = tokio::time::timeout(patience, key.store.swap(&key.name, &swap)).await;
        let mut shown = key.look().await;
        while shown.version.is_none_or(|version| version.nonce != swap.nonce) {
            assert_eq!(shown.version, look.version, "only this swap changes the key");
            shown = match key.swap(&swap).await {
                SwapReply::Swapped(_) => key.look().await,
                SwapReply::Changed(look) => look,
            };
        }
        assert_eq!(shown.state, state(number));
    }
    let newest_first: Vec<i64> = (1..=30).rev().collect();
    assert_eq!(fences(&key.records().await), newest_first);
}

pub(super) async fn wiped_key_is_like_a_new_one(subject: &Subject) {
    let key = TestKey::of(subject);
    let old = {
        let swap = Swap { nonce: 7, ..from(&key.look().await, with_fence(FenceChange::Next, numbered(1))) };
        key.applied(&swap).await
    };
    let copy = from(&key.look().await, numbered(2));
    subject.wipe(&key.name).await;
    let look = key.look().await;
    assert_eq!(look, Look::nothing(look.now));
    key.refused(&copy).await;
    let swap = Swap { nonce: 7, ..from(&look, with_fence(FenceChange::Next, numbered(1))) };
    let new = key.applied(&swap).await;
    assert_ne!(new.version, old.version);
    assert!(new.fence > old.fence, "{new:?} after {old:?}");
    key.refused(&copy).await;
}
