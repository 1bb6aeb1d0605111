//! The lock that other programs see and set.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::store::{Change, LockChange, Look, SharedLock, Swap};

use super::super::Subject;
use super::super::test_key::{TEXTS, TestKey, deletion, from, numbered};

const LONG: Duration = Duration::from_secs(60);

/// In whole milliseconds, as every expiry of a lock is.
fn after(now: Timestamp, duration: Duration) -> Timestamp {
    Timestamp::from_micros((now + duration).as_micros() / 1_000 * 1_000)
}

fn set(token: &str, until: Timestamp) -> Change {
    Change { lock: LockChange::Set { token: token.into(), until }, ..numbered(1) }
}

fn token(look: &Look) -> Option<&str> {
    look.lock.as_ref().map(|lock| &*lock.token)
}

pub(super) async fn swap_sets_keeps_and_deletes_the_lock(subject: &Subject) {
    let key = TestKey::of(subject);
    let outside = async || subject.outside().lock(&key.name).await;
    let until = after(key.look().await.now, LONG);
    for name in ["one", "other"] {
        key.write(set(name, until)).await;
        assert_eq!(token(&key.look().await), Some(name));
        assert_eq!(outside().await.as_deref(), Some(name));
    }
    key.write(numbered(2)).await;
    assert_eq!(outside().await.as_deref(), Some("other"));
    key.write(Change { lock: LockChange::Delete, ..numbered(3) }).await;
    assert_eq!((key.look().await.lock, outside().await), (None, None));

    key.write(set("one", until)).await;
    key.write(Change { lock: LockChange::Delete, ..deletion() }).await;
    let look = key.look().await;
    assert_eq!(look, Look::nothing(look.now));
    assert_eq!(outside().await, None);
}

pub(super) async fn lock_expires_by_the_stores_clock(subject: &Subject) {
    let key = TestKey::of(subject);
    let until = after(key.look().await.now, Duration::from_millis(300));
    key.write(set("one", until)).await;
    let look = key.look().await;
    if look.now < until {
        shows_expiry(&look.lock.expect("the lock has not expired"), until);
    }
    key.wait_until_after(until).await;
    assert_eq!(key.look().await.lock, None);
    assert_eq!(subject.outside().lock(&key.name).await, None);
    // A swap that expects none is applied.
    key.write(set("two", after(key.look().await.now, LONG))).await;
}

/// Redis tells the remaining time in milliseconds: a lock may seem to last a little longer, and never shorter.
fn shows_expiry(lock: &SharedLock, until: Timestamp) {
    let shown = lock.until.expect("the lock expires");
    let latest = until + Duration::from_millis(50);
    assert!(shown >= until && shown <= latest, "the lock ends at {until}, but {shown} is shown");
}

pub(super) async fn foreign_lock_is_shown_with_its_expiry(subject: &Subject) {
    let key = TestKey::of(subject);
    for _ in 0..2 {
        let until = after(key.look().await.now, LONG);
        subject.outside().set_lock(&key.name, "foreign", Some(until)).await;
        let lock = key.look().await.lock.expect("a lock");
        assert_eq!(&*lock.token, "foreign");
        shows_expiry(&lock, until);
        subject.outside().set_lock(&key.name, "foreign", None).await;
        assert_eq!(key.look().await.lock, Some(SharedLock { token: "foreign".into(), until: None }));
        subject.outside().remove_lock(&key.name).await;
        assert_eq!(key.look().await.lock, None);
        key.write(numbered(1)).await;
    }
}

pub(super) async fn swap_is_refused_if_the_lock_is_not_the_expected_one(subject: &Subject) {
    let key = TestKey::of(subject);
    for _ in 0..2 {
        let free = key.look().await;
        subject.outside().set_lock(&key.name, "foreign", None).await;
        let held = key.look().await;
        let change = Change { lock: LockChange::Delete, ..numbered(1) };
        let wrong = Swap { expected_lock: Some("another".into()), ..from(&held, change.clone()) };
        for swap in [from(&free, change.clone()), wrong, from(&free, deletion())] {
            let shown = key.refused(&swap).await;
            assert_eq!((shown.version, token(&shown)), (held.version, Some("foreign")));
            assert_eq!(subject.outside().lock(&key.name).await.as_deref(), Some("foreign"));
        }
        key.applied(&from(&held, change.clone())).await;
        let free = key.look().await;
        assert_eq!(free.lock, None);
        let expected = Swap { expected_lock: Some("foreign".into()), ..from(&free, change) };
        key.refused(&expected).await;
    }
}

pub(super) async fn foreign_tokens_are_compared_exactly(subject: &Subject) {
    let key = TestKey::of(subject);
    let long = "t".repeat(3_000);
    let odd = ["", "=", "*", "-", "0", "1", "nil", "false", "\0type", "\0bytes:00", "foreign ", "Foreign"];
    for foreign in TEXTS.into_iter().chain(odd).chain([long.as_str()]) {
        subject.outside().set_lock(&key.name, foreign, None).await;
        let held = key.look().await;
        let shown = held.lock.clone().expect("a lock");
        assert_eq!(subject.outside().lock(&key.name).await.as_deref(), Some(foreign));
        let close = [format!("{foreign} "), format!("={foreign}"), foreign.to_uppercase() + "x"];
        for other in close {
            let swap = Swap { expected_lock: Some(Arc::from(other)), ..from(&held, numbered(1)) };
            assert_eq!(token(&key.refused(&swap).await), Some(&*shown.token));
        }
        key.refused(&Swap { expected_lock: None, ..from(&held, numbered(1)) }).await;
        key.applied(&from(&held, numbered(1))).await;
        assert_eq!(token(&key.look().await), Some(&*shown.token), "the swap leaves it");
    }
}

pub(super) async fn foreign_lock_without_a_record_is_listed(subject: &Subject) {
    let key = TestKey::of(subject);
    subject.outside().set_lock(&key.name, "foreign", None).await;
    let keys = key.list().await;
    let (_, look) = keys.iter().find(|(name, _)| *name == key.name).expect("the key is listed");
    assert_eq!((look.version, token(look)), (None, Some("foreign")));
}
