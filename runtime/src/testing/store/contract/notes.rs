//! Notes that expire, and notifications.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::store::{Change, Note, Subscription, Topic};

use super::super::Subject;
use super::super::test_key::{TEXTS, TestKey, numbered};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

fn note(name: &str, text: &str) -> Note {
    Note { name: name.to_owned(), text: Arc::from(text) }
}

async fn put(key: &TestKey, topic: Topic, note: &Note, ttl: Duration) -> Timestamp {
    key.store.put_note(topic, note, ttl).await.expect("put_note")
}

async fn notes(key: &TestKey, topic: Topic) -> Vec<Note> {
    key.store.notes(topic).await.expect("notes").notes
}

pub(super) async fn note_is_shown_until_it_is_replaced_or_removed(subject: &Subject) {
    let key = &TestKey::of(subject);
    assert_eq!(notes(key, Topic::Servers).await, []);
    for text in ["1", "2", "2"] {
        put(key, Topic::Servers, &note("a", text), LONG).await;
        assert_eq!(notes(key, Topic::Servers).await, [note("a", text)]);
    }
    put(key, Topic::Servers, &note("b", "3"), LONG).await;
    for _ in 0..2 {
        put(key, Topic::Servers, &note("a", ""), Duration::ZERO).await;
        assert_eq!(notes(key, Topic::Servers).await, [note("b", "3")]);
    }
    put(key, Topic::Servers, &note("a", "4"), LONG).await;
    assert_eq!(notes(key, Topic::Servers).await, [note("a", "4"), note("b", "3")]);
}

pub(super) async fn note_expires_unless_it_is_renewed(subject: &Subject) {
    let key = &TestKey::of(subject);
    for name in ["renewed", "silent"] {
        put(key, Topic::Servers, &note(name, ""), LONG).await;
        put(key, Topic::Servers, &note(name, ""), SHORT).await;
    }
    put(key, Topic::Servers, &note("renewed", ""), LONG).await;
    tokio::time::sleep(SHORT + Duration::from_millis(10)).await;
    for _ in 0..2 {
        assert_eq!(notes(key, Topic::Servers).await, [note("renewed", "")]);
    }
    put(key, Topic::Servers, &note("silent", "again"), LONG).await;
    assert_eq!(notes(key, Topic::Servers).await, [note("renewed", ""), note("silent", "again")]);
}

pub(super) async fn topics_have_separate_notes(subject: &Subject) {
    let key = &TestKey::of(subject);
    put(key, Topic::Servers, &note("a", "1"), LONG).await;
    put(key, Topic::Requests, &note("a", "2"), LONG).await;
    assert_eq!(notes(key, Topic::Servers).await, [note("a", "1")]);
    assert_eq!(notes(key, Topic::Requests).await, [note("a", "2")]);
    put(key, Topic::Servers, &note("a", ""), Duration::ZERO).await;
    assert_eq!(notes(key, Topic::Requests).await, [note("a", "2")]);
}

pub(super) async fn notes_come_back_as_they_were_put_in_the_order_of_their_names(subject: &Subject) {
    let key = &TestKey::of(subject);
    let long = ["host-".repeat(60), "announcement ☃ ".repeat(10_000)];
    let names = ["..", "a", "A", "a/b", "a:b", "a.json", "b", "γ {1}", "a b", "%", "'\"\\", "日本", &long[0]];
    let mut expected = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let text = TEXTS.get(number).copied().unwrap_or(&long[1]);
        expected.push(note(name, text));
        put(key, Topic::Servers, &note(name, text), LONG).await;
    }
    expected.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(notes(key, Topic::Servers).await, expected);
    for name in names {
        put(key, Topic::Servers, &note(name, ""), Duration::ZERO).await;
    }
    assert_eq!(notes(key, Topic::Servers).await, []);
}

/// Whether a notification arrives soon.
async fn is_notified(listener: &mut Subscription, within: Duration) -> bool {
    match tokio::time::timeout(within, listener.notified()).await {
        Ok(still_subscribed) => {
            assert!(still_subscribed, "the subscription ended");
            true
        }
        Err(_) => false,
    }
}

async fn listen(key: &TestKey) -> Subscription {
    let listener = key.store.listen(&key.name).await.expect("listen");
    listener.expect("a store without notifications is a `Subject::without_notifications`")
}

pub(super) async fn swap_that_notifies_wakes_those_who_listen_to_its_key(subject: &Subject) {
    let key = TestKey::of(subject);
    let (mut first, mut second) = (listen(&key).await, listen(&key).await);
    let notifying = |number| Change { notify: true, ..numbered(number) };
    for number in 1..4 {
        key.write(notifying(number)).await;
        for listener in [&mut first, &mut second] {
            assert!(is_notified(listener, Duration::from_secs(10)).await, "no notification arrived");
        }
    }
}

/// Every notification costs a look, by every process that waits.
pub(super) async fn silent_swaps_and_those_of_other_keys_wake_no_one(subject: &Subject) {
    let key = TestKey::of(subject);
    let mut listener = listen(&key).await;
    key.write(numbered(1)).await;
    TestKey::named(subject, "another").write(Change { notify: true, ..numbered(3) }).await;
    assert!(!is_notified(&mut listener, Duration::from_millis(300)).await, "a notification arrived");
}
