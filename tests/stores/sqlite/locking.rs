//! The write lock of the database: who waits for it, for how long, and what is read after the wait.

use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::store::{Change, Store, StoreErrorKind, Swap, SwapReply};

use super::{KEY, TestDatabase, apply, swap_from};

/// Holds the write lock for so long on a thread, with a row written and not committed.
fn hold(database: &TestDatabase, time: Duration) -> std::thread::JoinHandle<Timestamp> {
    let other = database.other_program();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE job_lock SET server = 'x'").expect("the lock");
    std::thread::spawn(move || {
        std::thread::sleep(time);
        let end = Timestamp::now();
        other.execute_batch("ROLLBACK").expect("a rollback");
        end
    })
}

#[tokio::test]
async fn a_look_does_not_wait_for_a_process_that_writes_and_a_swap_fails_within_a_second() {
    let database = TestDatabase::new();
    let store = database.open();
    let first = apply(&store, &swap_from(None)).await;
    let held = hold(&database, Duration::from_secs(2));
    let begun = Instant::now();
    let look = store.look(KEY).await.expect("a look");
    assert_eq!(look.version, Some(first.version));
    assert!(begun.elapsed() < Duration::from_millis(500), "a look took {:?}", begun.elapsed());
    let error = store.swap(KEY, &swap_from(look.version)).await.expect_err("the database is locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("kept the database locked"), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(1900), "a swap took {:?}", begun.elapsed());
    held.join().expect("no panic");
    apply(&store, &swap_from(look.version)).await;
}

#[tokio::test]
async fn a_swap_reads_the_clock_after_it_waited() {
    let database = TestDatabase::new();
    let store = database.open();
    let first = apply(&store, &swap_from(None)).await;
    let held = hold(&database, Duration::from_millis(120));
    let swapped = apply(&store, &swap_from(Some(first.version))).await;
    let end = held.join().expect("no panic");
    assert!(swapped.now >= end && swapped.version.at >= end, "{swapped:?} before {end}");
}

#[tokio::test]
async fn a_swap_whose_time_ends_while_it_waits_is_refused() {
    let database = TestDatabase::new();
    let store = database.open();
    let first = apply(&store, &swap_from(None)).await;
    let held = hold(&database, Duration::from_millis(120));
    let not_after = Some(Timestamp::now() + Duration::from_millis(60));
    let swap = swap_from(Some(first.version));
    let limited = Swap { change: Change { not_after, ..swap.change.clone() }, ..swap.clone() };
    let reply = store.swap(KEY, &limited).await.expect("an answer");
    assert!(matches!(reply, SwapReply::Changed(_)), "{reply:?}");
    held.join().expect("no panic");
    // The control: without the limit it is applied.
    apply(&store, &swap).await;
}

/// A swap that no caller waits for is applied to its end, and leaves no transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_swap_runs_to_its_end() {
    let database = TestDatabase::new();
    let store = database.open();
    let (mut version, mut unanswered) = (None, 0);
    for round in 0..200_u64 {
        let swap = swap_from(version);
        let patience = async {
            for _ in 0..=round % 8 {
                tokio::task::yield_now().await;
            }
        };
        let answered = tokio::select! {
            biased;
            reply = store.swap(KEY, &swap) => reply.is_ok(),
            () = patience => false,
        };
        unanswered += u32::from(!answered);
        // Takes its turn after the other one.
        let reply = store.swap(KEY, &swap_from(version)).await.expect("an answer");
        let SwapReply::Changed(look) = reply else { panic!("{reply:?}, although {swap:?} was begun") };
        assert_eq!(look.version.map(|version| version.nonce), Some(swap.nonce));
        version = look.version;
    }
    assert!(unanswered > 20, "{unanswered} of 200 were dropped: this shows nothing");
}

/// A look on any connection shows every write that was acknowledged on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_of_another_store_shows_every_acknowledged_write() {
    let database = TestDatabase::new();
    let (writer, reader) = (database.open(), database.open());
    let mut version = None;
    for _ in 0..300 {
        version = Some(apply(&writer, &swap_from(version)).await.version);
        let looks = [reader.look(KEY).await, writer.look(KEY).await];
        for look in looks {
            assert_eq!(look.expect("a look").version, version);
        }
    }
}
