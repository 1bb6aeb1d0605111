//! Slots are counted right however many servers ask at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobs::history::RunOutcome;
use jobs::store::ClaimPurpose;

use super::{ISOLATION_LEVELS, claim_on, open, open_url, unused_name, win};
use support::bench::{LONG, claim_what, ending, holder};
use support::postgres_server::{PATIENCE, PostgresServer};

/// So many wins show something.
const ENOUGH: u32 = 30;

/// Clients take and give back slots as fast as they can for a while, and on a slow machine until all were held at once
/// and enough were won; returns how many were held at most.
async fn stampede(url: &str, clients: u32, of: u32, lasts: Duration) -> u32 {
    let namespace = unused_name();
    let [held, most, wins] = [(); 3].map(|()| Arc::new(AtomicU32::new(0)));
    let begun = Instant::now();
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let store = open_url(url, &namespace);
            let [held, most, wins] = [&held, &most, &wins].map(Arc::clone);
            tokio::spawn(async move {
                let all_were_held = || most.load(Ordering::SeqCst) >= of;
                let is_enough = || all_were_held() && wins.load(Ordering::SeqCst) > ENOUGH;
                while begun.elapsed() < lasts || !(is_enough() || begun.elapsed() > PATIENCE) {
                    let claim = claim_what(&format!("s{number}"), LONG, ClaimPurpose::Slot(of));
                    let Some(slot) = store.acquire("slots", &claim).await.expect("claim") else {
                        // Clients that only ask leave the others no processor on a small machine.
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        continue;
                    };
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    wins.fetch_add(1, Ordering::SeqCst);
                    let since = Instant::now();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    while !all_were_held() && since.elapsed() < Duration::from_secs(2) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    held.fetch_sub(1, Ordering::SeqCst);
                    slot.release(&ending(RunOutcome::Succeeded)).await.expect("release");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    println!("{most:?} at once, {wins:?} in all");
    let wins = wins.load(Ordering::SeqCst);
    assert!(wins > ENOUGH, "only {wins} were won");
    most.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_sixteen_connections_race_for_are_never_more_than_there_are() {
    let url = PostgresServer::shared().url();
    assert_eq!(stampede(&url, 16, 3, Duration::from_secs(2)).await, 3);
    // The control: with one more there is one more.
    assert_eq!(stampede(&url, 16, 4, Duration::from_secs(1)).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_counted_right_at_every_isolation_level() {
    for level in ISOLATION_LEVELS {
        let url = format!("{}?{level}", PostgresServer::shared().url());
        assert_eq!(stampede(&url, 6, 2, Duration::from_secs(1)).await, 2, "{level}");
    }
}

#[tokio::test]
async fn a_claim_that_finds_no_slot_neither_locks_nor_waits() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = open(server, &namespace);
    win(&store, "slots", &claim_what("a", LONG, ClaimPurpose::Slot(1))).await;

    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    let rows = format!("SELECT 1 FROM job_lock WHERE namespace = '{namespace}' FOR UPDATE");
    holding.batch_execute(&rows).await.unwrap();
    let begun = Instant::now();
    for _ in 0..3 {
        holder(claim_on(&store, "slots", &claim_what("b", LONG, ClaimPurpose::Slot(1))).await);
        // Nor does one that waits for a slot.
        store.store().listen("slots#slots").await.expect("listen");
    }
    store.locks().await.expect("locks");
    assert!(begun.elapsed() < Duration::from_secs(1), "the loser waited {:?}", begun.elapsed());

    // The control: who would win does wait.
    let claim = claim_what("b", LONG, ClaimPurpose::Slot(2));
    let winning = tokio::time::timeout(Duration::from_millis(300), store.claim("slots", &claim)).await;
    assert!(winning.is_err(), "{winning:?}");
    holding.rollback().await.unwrap();
    win(&store, "slots", &claim).await;
}
