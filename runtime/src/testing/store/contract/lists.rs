//! The list of keys, odd keys, and namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::store::{FenceChange, Look, Note, Topic};

use super::super::Subject;
use super::super::test_key::{TestKey, deletion, numbered, state, with_fence};

/// More than one page of every store that has pages.
const MANY: u64 = 1_200;

/// Keys that are valid, or that the crate itself makes of valid ones, and that a store may mix up.
fn odd_keys() -> Vec<String> {
    let long = "k".repeat(139);
    let named = [
        "a",
        "A",
        "b",
        ".",
        "..",
        "a/b",
        "a/../b",
        "/a",
        "a/",
        "a//b",
        "-x",
        "--",
        "a:b",
        "a_b",
        "a.b",
        "x",
        "x.lock",
        "x.json",
        "con",
        "nul",
        "a#slots",
        "#ping",
        "a b",
        " a",
        "a ",
        "a'b",
        "a\"b",
        "a%b",
        "a%25b",
        "a*",
        "*",
        "a?",
        "[a]",
        "a\\b",
        "a,b",
        "lock:a",
        "lock:a:state",
        "日本",
        "é",
        "e\u{301}",
    ];
    let long = [format!("{long}x"), format!("{long}y")];
    named.into_iter().map(str::to_owned).chain(long).collect()
}

pub(super) async fn odd_keys_are_separate_keys(subject: &Subject) {
    let names = odd_keys();
    for (number, name) in (0..).zip(&names) {
        let key = TestKey::named(subject, name);
        assert_eq!(key.look().await.version, None, "{name:?}");
        key.write(numbered(number)).await;
    }
    for (number, name) in (0..).zip(&names) {
        let key = TestKey::named(subject, name);
        assert_eq!(key.look().await.state, state(number), "{name:?}");
    }
    let listed: BTreeSet<_> = TestKey::of(subject).list().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, names.iter().cloned().collect());
    for name in &names {
        TestKey::named(subject, name).write(deletion()).await;
    }
    assert_eq!(TestKey::of(subject).list().await, []);
}

pub(super) async fn list_shows_every_key_as_a_look_does(subject: &Subject) {
    let mut expected = BTreeMap::new();
    for (number, name) in (0..).zip(["one", "two", "deleted", "three#slots"]) {
        let key = TestKey::named(subject, name);
        key.write(with_fence(FenceChange::Next, numbered(number))).await;
        if name == "deleted" {
            key.write(deletion()).await;
        } else {
            expected.insert(name.to_owned(), key.look().await);
        }
    }
    let mut listed = BTreeMap::new();
    for (name, look) in TestKey::of(subject).list().await {
        let known = expected.get(&name).unwrap_or_else(|| panic!("{name} is no key: {look:?}"));
        assert!(look.now >= known.now, "the clock of {name} is an old one");
        listed.insert(name, Look { now: known.now, ..look });
    }
    assert_eq!(listed, expected);
}

pub(super) async fn list_shows_more_keys_than_a_page_has(subject: &Subject) {
    let write = async |share: u64| {
        for number in (0..MANY).filter(|number| number % 16 == share) {
            TestKey::named(subject, &format!("job-{number}")).write(numbered(number)).await;
        }
    };
    let [a, b, c, d] = [0, 4, 8, 12].map(|first| async move {
        tokio::join!(write(first), write(first + 1), write(first + 2), write(first + 3));
    });
    tokio::join!(a, b, c, d);
    let mut listed = BTreeMap::new();
    for (name, look) in TestKey::of(subject).list().await {
        listed.insert(name, look.state.stats.runs);
    }
    let expected: BTreeMap<_, _> = (0..MANY).map(|number| (format!("job-{number}"), number)).collect();
    let missing: Vec<_> = expected.keys().filter(|name| !listed.contains_key(*name)).collect();
    assert!(listed == expected, "{} of {MANY} keys are listed; missing: {missing:?}", listed.len());
}

pub(super) async fn namespaces_have_separate_keys(subject: &Subject) {
    let spaces = ["blue", "green", "blue.green"].map(|name| TestKey::in_namespace(subject, name));
    let keys: Vec<_> = spaces.into_iter().chain([TestKey::of(subject)]).collect();
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(key.look().await.version, None);
        key.write(numbered(number)).await;
    }
    for (number, key) in (0..).zip(&keys) {
        let listed = key.list().await;
        let [(name, look)] = listed.as_slice() else { panic!("one key: {listed:?}") };
        assert_eq!((name, &look.state), (&key.name, &state(number)));
    }
    keys[0].write(deletion()).await;
    assert_eq!(keys[1].look().await.state, state(1));
}

pub(super) async fn namespaces_have_separate_notes(subject: &Subject) {
    let [blue, green] = ["blue", "green"].map(|name| TestKey::in_namespace(subject, name));
    let keys = [blue, green, TestKey::of(subject)];
    let note = |text: &str| Note { name: "a".to_owned(), text: Arc::from(text) };
    for (key, text) in keys.iter().zip(["1", "2", "3"]) {
        key.store.put_note(Topic::Servers, &note(text), Duration::from_secs(60)).await.expect("put_note");
    }
    for (key, text) in keys.iter().zip(["1", "2", "3"]) {
        assert_eq!(key.store.notes(Topic::Servers).await.expect("notes").notes, [note(text)]);
    }
    keys[0].store.put_note(Topic::Servers, &note(""), Duration::ZERO).await.expect("put_note");
    assert_eq!(keys[1].store.notes(Topic::Servers).await.expect("notes").notes, [note("2")]);
}
