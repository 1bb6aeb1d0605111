//! The conditions of a swap that concern the mark of a transaction: each is refused, or applied, as it must be.

use std::sync::Arc;
use std::time::Duration;

use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::sqlite::SqliteStore;
use jobs::store::{Change, EndedLease, FenceChange, KeyState, Lease, Look, Store, Swap, SwapReply, Version};
use support::server::{claim_now, random};

use crate::{TestBank, on_every_database};

on_every_database! {
    swap_that_ends_a_lease_is_refused_if_it_has_not_seen_the_mark;
    swap_that_leaves_the_lease_keeps_the_mark;
    ended_lease_has_no_token_that_a_transaction_could_match;
    marked_work_is_not_swept_before_its_time;
}

const KEY: &str = "pay";

fn open(bank: &TestBank) -> Box<dyn Store> {
    let (url, namespace) = (bank.bank.url(), Some(bank.namespace.as_str()));
    match url.split_once("://").expect("a URL") {
        ("postgres", _) => Box::new(PostgresStore::open(url, namespace).expect("a store")),
        ("mysql", _) => Box::new(MysqlStore::open(url, namespace).expect("a store")),
        (_, path) => Box::new(SqliteStore::open(path, namespace).expect("a store")),
    }
}

/// A state in which this token has the key.
fn held_by(token: &str, look: &Look) -> KeyState {
    let claim = jobs::store::Claim { token: token.into(), ..claim_now() };
    let lease = Lease::claimed(&claim, look.now, look.now + Duration::from_secs(60));
    KeyState { claimant: Some(lease), expires: None, ..KeyState::default() }
}

async fn swap(store: &dyn Store, expected: Option<Version>, change: Change) -> SwapReply {
    let swap = Swap { expected, expected_lock: None, nonce: random(), change };
    store.swap(KEY, &swap).await.expect("an answer")
}

/// A new lease, whose decision has seen a mark, or none.
fn new_lease(token: &str, look: &Look, is_finished: bool) -> Change {
    let state = Some(Arc::new(held_by(token, look)));
    Change {
        state,
        fence: FenceChange::Next,
        ends_lease: Some(EndedLease { is_finished }),
        ..Change::default()
    }
}

fn is_applied(reply: &SwapReply) -> bool {
    matches!(reply, SwapReply::Swapped(_))
}

/// What `finish` writes.
async fn mark(bank: &TestBank, done_until: &str) {
    let url = bank.bank.url();
    let (now, soon) = match url.split_once("://").expect("a URL").0 {
        "postgres" => ("now()", "now() + interval '1 hour'"),
        "mysql" => ("UTC_TIMESTAMP(6)", "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"),
        _ => ("1800000000000000", "9000000000000000"),
    };
    let done_until = if done_until == "soon" { soon } else { done_until };
    let sql = format!(
        "UPDATE job_fence SET finished_at = {now}, done_until = {done_until} WHERE namespace = '{}' AND job_name = '{KEY}'",
        bank.namespace
    );
    bank.bank.execute(&sql).await.expect("a mark");
}

async fn swap_that_ends_a_lease_is_refused_if_it_has_not_seen_the_mark(bank: &TestBank) {
    let store = open(bank);
    let look = store.look(KEY).await.expect("a look");
    assert!(is_applied(&swap(&*store, None, new_lease("a", &look, false)).await));
    let before = store.look(KEY).await.expect("a look");
    assert_eq!(before.finished, None);
    // Without a mark, a decision that has seen one is refused as well: the store has lost it.
    assert!(!is_applied(&swap(&*store, before.version, new_lease("b", &before, true)).await));
    mark(bank, "NULL").await;
    let broken = KeyState { released: true, ..held_by("a", &before) };
    let ends_lease = Some(EndedLease { is_finished: false });
    let deletion = Change { ends_lease, ..Change::default() };
    let breaking = Change { state: Some(Arc::new(broken)), ends_lease, ..Change::default() };
    for change in [new_lease("b", &before, false), deletion, breaking] {
        let SwapReply::Changed(look) = swap(&*store, before.version, change.clone()).await else {
            panic!("applied: {change:?}");
        };
        assert!(look.finished.is_some() && look.version == before.version);
    }
    assert!(is_applied(&swap(&*store, before.version, new_lease("b", &before, true)).await));
    assert_eq!(store.look(KEY).await.expect("a look").finished, None, "the new lease has no mark");
}

async fn swap_that_leaves_the_lease_keeps_the_mark(bank: &TestBank) {
    let store = open(bank);
    let look = store.look(KEY).await.expect("a look");
    assert!(is_applied(&swap(&*store, None, new_lease("a", &look, false)).await));
    mark(bank, "NULL").await;
    for _ in 0..2 {
        let before = store.look(KEY).await.expect("a look");
        let kept = Change { state: Some(Arc::new(held_by("a", &before))), ..Change::default() };
        assert!(is_applied(&swap(&*store, before.version, kept).await));
        assert!(store.look(KEY).await.expect("a look").finished.is_some());
    }
}

async fn ended_lease_has_no_token_that_a_transaction_could_match(bank: &TestBank) {
    let store = open(bank);
    let look = store.look(KEY).await.expect("a look");
    assert!(is_applied(&swap(&*store, None, new_lease("a", &look, false)).await));
    let rows = async |token: &str| {
        let sql = format!(
            "INSERT INTO payment (fleet, job, tick, server) SELECT '{0}-{token}', job_name, fence, token FROM job_fence \
             WHERE namespace = '{0}' AND token = '{token}'",
            bank.namespace
        );
        bank.bank.execute(&sql).await.expect("rows");
        bank.bank.booked(&format!("{}-{token}", bank.namespace)).await
    };
    assert_eq!(rows("a").await, 1);
    let before = store.look(KEY).await.expect("a look");
    let state = Some(Arc::new(KeyState { released: true, ..held_by("a", &before) }));
    let broken = Change { state, ends_lease: Some(EndedLease::default()), ..Change::default() };
    assert!(is_applied(&swap(&*store, before.version, broken).await));
    assert_eq!(rows("a").await, 1, "still the one from before");
    assert_eq!(rows("").await, 1);
}

async fn marked_work_is_not_swept_before_its_time(bank: &TestBank) {
    let store = open(bank);
    let look = store.look(KEY).await.expect("a look");
    let expired = |change: Change| {
        let state = KeyState {
            expires: Some(look.now + Duration::from_millis(500)),
            ..(**change.state.as_ref().expect("a state")).clone()
        };
        Change { state: Some(Arc::new(state)), ..change }
    };
    assert!(is_applied(&swap(&*store, None, expired(new_lease("a", &look, false))).await));
    mark(bank, "soon").await;
    let note = jobs::store::Note { name: "server".to_owned(), text: "here".into() };
    let sweep = async || {
        // Every note is followed by a sweep, which some stores do afterwards.
        store.put_note(jobs::store::Topic::Servers, &note, Duration::from_secs(9)).await.expect("a note");
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    for _ in 0..5 {
        sweep().await;
        assert!(store.look(KEY).await.expect("a look").version.is_some(), "it was swept");
    }
    // The control: without the mark it is.
    mark(bank, "NULL").await;
    for _ in 0..50 {
        sweep().await;
        if store.look(KEY).await.expect("a look").version.is_none() {
            return;
        }
    }
    panic!("the expired record was not swept");
}
