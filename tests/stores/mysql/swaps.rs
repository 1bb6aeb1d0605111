//! Swaps beside sessions that hold locks, and swaps that no caller waits for.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::history::{Skip, SkipRecord};
use jobs::store::{Change, JobRecord, Store, StoreErrorKind, Swap, SwapReply, Topic};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use support::mariadb_server::MariadbServer;

use super::{KEY, apply, shared, store_at, swap_from, unused_name};
use crate::dropped_conditions::{Replacement, relay};

/// Holds the lock of the key's row for so long, and returns the server's time just before it was released.
async fn hold(server: &MariadbServer, namespace: &str, time: Duration) -> tokio::task::JoinHandle<Timestamp> {
    let mut client: Conn = server.client().await;
    let namespace = namespace.to_owned();
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let holding = tokio::spawn(async move {
        let mut transaction = client.start_transaction(TxOpts::default()).await.expect("a transaction");
        let lock = format!(
            "UPDATE job_lock SET server = 'x' WHERE namespace = '{namespace}' AND job_name = '{KEY}'"
        );
        transaction.query_drop(lock).await.expect("the lock");
        locked.send(()).expect("a listener");
        tokio::time::sleep(time).await;
        let clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        let end: i64 = transaction.query_first(clock).await.expect("an answer").expect("a row");
        transaction.rollback().await.expect("a rollback");
        Timestamp::from_micros(end)
    });
    is_locked.await.expect("the lock");
    holding
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_reads_the_clock_after_it_waited_for_a_row() {
    let server = shared().await;
    let namespace = unused_name();
    let store = store_at(&server.url(), &namespace);
    let first = apply(&store, &swap_from(None)).await;
    let held = hold(server, &namespace, Duration::from_millis(150)).await;
    let swapped = apply(&store, &swap_from(Some(first.version))).await;
    let end = held.await.expect("no panic");
    assert!(swapped.now >= end && swapped.version.at >= end, "{swapped:?} before {end}");
}

/// The control: the same swap without the lock of its first statement, which a relay removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_without_a_lock_before_its_clock_is_caught() {
    let server = shared().await;
    let namespace = unused_name();
    let removed = Replacement { text: "FOR UPDATE NOWAIT", by: "" };
    let port = relay(server.port(), removed, Arc::new(AtomicUsize::new(0))).await;
    let store = store_at(&server.url_through(port), &namespace);
    let first = apply(&store, &swap_from(None)).await;
    let held = hold(server, &namespace, Duration::from_millis(150)).await;
    let swapped = apply(&store, &swap_from(Some(first.version))).await;
    let end = held.await.expect("no panic");
    assert!(swapped.now < end, "the wait is in front of the clock, although the lock is not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_delays_neither_looks_nor_other_keys_and_its_swap_is_refused_when_its_time_is_over() {
    let server = shared().await;
    let namespace = unused_name();
    let store = Arc::new(store_at(&server.url(), &namespace));
    let first = apply(&*store, &swap_from(None)).await;
    let held = hold(server, &namespace, Duration::from_millis(1500)).await;
    let swap = swap_from(Some(first.version));
    let not_after = Some(store.look(KEY).await.expect("a look").now + Duration::from_millis(700));
    let limited = Swap { change: Change { not_after, ..swap.change.clone() }, ..swap.clone() };
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.swap(KEY, &limited).await }
    });
    let (mut version, begun) = (None, Instant::now());
    for _ in 0..10 {
        assert_eq!(store.look(KEY).await.expect("a look").version, Some(first.version));
        let reply = store.swap("other", &swap_from(version)).await.expect("an answer");
        let SwapReply::Swapped(swapped) = reply else { panic!("{reply:?}") };
        version = Some(swapped.version);
    }
    assert!(begun.elapsed() < Duration::from_millis(1400), "ten took {:?}", begun.elapsed());
    let reply = waiting.await.expect("no panic").expect("an answer");
    assert!(matches!(reply, SwapReply::Changed(_)), "{reply:?}");
    held.await.expect("no panic");
    apply(&*store, &swap).await;
}

/// Ends after so many turns of the runtime: a timer is too coarse.
async fn patience(turns: u64) {
    for _ in 0..=turns {
        tokio::task::yield_now().await;
    }
}

/// Swaps are dropped at any point: each is applied or not, and no transaction stays open behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_swap_is_applied_or_not_and_leaves_no_transaction() {
    let server = shared().await;
    let namespace = unused_name();
    let store = store_at(&server.url(), &namespace);
    let mut version = Some(apply(&store, &swap_from(None)).await.version);
    let (mut dropped, mut kept) = (0, 0);
    for round in 0..40_u64 {
        let swap = swap_from(version);
        let answered = tokio::select! {
            biased;
            reply = store.swap(KEY, &swap) => reply.is_ok(),
            () = patience(round) => false,
        };
        dropped += u32::from(!answered);
        let next = swap_from(version);
        version = match store.swap(KEY, &next).await.expect("an answer") {
            SwapReply::Swapped(swapped) => {
                assert!(!answered, "its answer was that it is applied");
                Some(swapped.version)
            }
            SwapReply::Changed(look) => {
                kept += 1;
                look.version
            }
        };
        // The dropped one may still be in progress on its own connection, and comes too late.
        let look = store.look(KEY).await.expect("a look");
        assert!(look.version == version || look.version.map(|version| version.nonce) == Some(swap.nonce));
        version = look.version;
    }
    assert!(dropped > 8, "{dropped} were dropped and {kept} applied: this shows nothing");
    let mut client = server.client().await;
    let open = "SELECT COUNT(*) FROM information_schema.innodb_trx t
        JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.command = 'Sleep'";
    for attempt in 0.. {
        // Other tests hold some for a while.
        let open: u32 = client.query_first(open).await.expect("an answer").expect("a row");
        if open == 0 {
            break;
        }
        assert!(attempt < 100, "{open} transactions stay open");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A swap that creates a key, with a record.
fn creation() -> Swap {
    let at = Timestamp::now();
    let swap = swap_from(None);
    let records = vec![JobRecord::Skip(SkipRecord::new(at, Skip::Held, "a", at))];
    Swap { change: Change { records, keep: 9, ..swap.change.clone() }, ..swap }
}

/// Rows without a record, and rows without a version, after clients closed their connections in the middle of swaps.
async fn torn(server: &MariadbServer, namespace: &str) -> (u32, u32) {
    // The sessions end.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let torn = format!(
        "SELECT COUNT(*), CAST(COALESCE(SUM(version = '' OR NOT EXISTS (SELECT 1 FROM job_record r
           WHERE r.namespace = l.namespace AND r.job_name = l.job_name)), 0) AS SIGNED)
         FROM job_lock l WHERE namespace = '{namespace}'"
    );
    server.client().await.query_first(torn).await.expect("an answer").expect("a row")
}

/// Each swap has a connection of its own, which is closed at any point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_whose_connection_closes_is_applied_with_its_record_or_not_at_all() {
    let server = shared().await;
    let namespace = unused_name();
    for round in 0..400_u64 {
        let store = store_at(&server.url(), &namespace);
        store.swap("warm", &swap_from(None)).await.expect("a connection");
        let (key, swap) = (format!("key-{round}"), creation());
        tokio::select! {
            biased;
            reply = store.swap(&key, &swap) => drop(reply.expect("an answer")),
            () = patience(round * 4) => {}
        }
    }
    server.run(&format!("DELETE FROM jobs.job_lock WHERE namespace = '{namespace}' AND job_name = 'warm'"));
    let (rows, torn) = torn(server, &namespace).await;
    assert_eq!(torn, 0, "of {rows}");
    assert!((40..400).contains(&rows), "{rows} of 400 were applied: this shows nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_is_an_error_that_is_retried_and_nothing_is_applied() {
    let server = super::started_with(&[]).await;
    let store =
        store_at(&server.url(), "shop").with_timeouts(Duration::from_secs(5), Duration::from_millis(2500));
    let first = apply(&store, &swap_from(None)).await;
    let mut client = server.client().await;
    client.query_drop("LOCK TABLES job_lock WRITE").await.expect("a lock");
    let begun = Instant::now();
    let error = store.swap(KEY, &swap_from(Some(first.version))).await.expect_err("locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(9), "it took {:?}", begun.elapsed());
    client.query_drop("UNLOCK TABLES").await.expect("no lock");
    // What was sent and not answered may still be applied, so this looks first.
    let look = store.look(KEY).await.expect("a look");
    apply(&store, &swap_from(look.version)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_servers_create_the_tables_at_once() {
    let server = super::started_with(&[]).await;
    let opened: Vec<_> = (0..8).map(|_| store_at(&server.url(), "shop")).collect();
    let swaps = opened.into_iter().map(|store| async move { store.swap(KEY, &swap_from(None)).await });
    let swaps: Vec<_> = swaps.map(tokio::spawn).collect();
    let mut applied = 0;
    for swap in swaps {
        let reply = swap.await.expect("no panic").expect("an answer");
        applied += u32::from(matches!(reply, SwapReply::Swapped(_)));
    }
    assert_eq!(applied, 1);
}

/// A caller that has the turn and finds the connection abandoned drops it: others wait for their turn all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_connection_is_dropped_although_many_callers_wait_for_it() {
    let server = super::started_with(&[]).await;
    let store = Arc::new(store_at(&server.url(), "shop"));
    store.look(KEY).await.expect("the tables are made");
    let mut client = server.client().await;
    for _ in 0..30 {
        client.query_drop("LOCK TABLES job_lock WRITE").await.expect("a lock");
        let (first, behind) = (store.look(KEY), Duration::from_millis(40));
        let callers = async {
            tokio::time::sleep(behind / 4).await;
            let notes = (0..50).map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.notes(Topic::Servers).await.map(drop) })
            });
            notes.collect::<Vec<_>>()
        };
        let (dropped, callers) = tokio::join!(tokio::time::timeout(behind, first), callers);
        let begun = Instant::now();
        for caller in callers {
            caller.await.expect("no panic").expect("another table is not locked");
        }
        assert!(dropped.is_err(), "the table is locked");
        assert!(begun.elapsed() < Duration::from_secs(10), "they took {:?}", begun.elapsed());
        client.query_drop("UNLOCK TABLES").await.expect("no lock");
    }
}
