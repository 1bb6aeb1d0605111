//! Whatever happens to those who hold and wait, no key stays locked for longer than its ttl.

use std::time::Duration;

use jobs::fleet::HeldLock;
use jobs::testing::store::Client;

use super::ground::Ground;
use super::process::{random, sleep_millis, start, witnessed};
use support::fleet::{Worker, wait_until};
use support::worker::{number, orders, setting, tell};

const TTL: Duration = Duration::from_secs(2);
const KEYS: u64 = 5;
const TASKS: usize = 4;

fn key(index: u64) -> String {
    format!("payment:{index}")
}

/// Acquires a lock and keeps it for as long as the process lives.
pub async fn holder() {
    let jobs = witnessed().await;
    tell("ready");
    let guard = jobs.lock(setting("KEY").expect("a key")).ttl(TTL).acquire().await.expect("the lock");
    tell("holds");
    orders().recv().await;
    drop(guard);
}

/// Drops one acquire after the other at a random point, and stays.
pub async fn canceller() {
    let jobs = std::sync::Arc::new(witnessed().await);
    let mut orders = orders();
    tell("ready");
    orders.recv().await;
    let rounds = number("ROUNDS", 0);
    let cancel = |jobs: std::sync::Arc<jobs::Jobs>| async move {
        for _ in 0..rounds {
            let acquiring = jobs.lock(key(random(KEYS))).ttl(TTL).acquire();
            // Mostly in the middle of a request, and now and then in the middle of the line.
            let patience = Duration::from_micros(random(if random(5) == 0 { 60_000 } else { 6_000 }));
            match tokio::time::timeout(patience, acquiring).await {
                Ok(guard) => {
                    let guard = guard.expect("the lock");
                    sleep_millis(random(3)).await;
                    tell("acquired");
                    drop(guard);
                }
                Err(_) => tell("cancelled"),
            }
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(cancel(jobs.clone()))).collect();
    for task in tasks {
        task.await.expect("all rounds");
    }
    tell("finished");
    orders.recv().await;
}

/// The control: loses its guard without dropping it, and stays.
pub async fn forgetter() {
    let jobs = witnessed().await;
    std::mem::forget(jobs.lock(key(0)).ttl(TTL).acquire().await.expect("the lock"));
    tell("ready");
    orders().recv().await;
}

/// What is held, after whatever was held when this was called has had its ttl.
fn held_after_the_ttl(ground: &Ground) -> Vec<HeldLock> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of(ground.open());
        let held = client.locks().await.expect("an answer").reply;
        let longest = held.iter().filter_map(|held| held.holder.remaining).max().unwrap_or_default();
        assert!(longest <= TTL && held.iter().all(|held| held.holder.remaining.is_some()), "{held:?}");
        tokio::time::sleep(TTL).await;
        client.locks().await.expect("an answer").reply
    })
}

pub fn a_process_that_keeps_its_lock_is_seen_to() {
    let ground = Ground::redis();
    let _forgetful = ground.orders("forget").start_fleet(1);
    let held = held_after_the_ttl(&ground);
    assert_eq!(held.len(), 1, "the control: a lock that is kept alive is still there after its ttl");
}

#[test]
fn nothing_stays_locked_after_kills_and_cancellations() {
    let ground = Ground::redis();
    let mut cancelling = ground.orders("cancel").set("WORKER_ROUNDS", 150).start_fleet(4);
    for worker in &mut cancelling {
        worker.order("go");
    }
    let holding = |index: usize| ground.orders("hold").set("WORKER_KEY", format!("held:{index}"));
    let mut holders: Vec<_> = (0..3).map(|index| holding(index).start()).collect();
    for holder in &holders {
        holder.wait_for("holds");
    }
    let mut waiters: Vec<_> = (0..3).map(|index| holding(index).start()).collect();
    for waiter in &waiters {
        waiter.wait_for("asked");
    }
    // One waiter is killed before the holder, one after it, and one lives to hold, and is killed then.
    waiters[0].kill();
    for holder in &mut holders {
        holder.kill();
    }
    waiters[1].kill();
    waiters[2].wait_for("holds");
    waiters[2].kill();
    // One is killed in the middle of it; the others stay, and would keep alive what they still had.
    cancelling[0].kill();
    wait_until("the end of all rounds", || cancelling[1..].iter().all(has_finished));
    let told: Vec<_> = cancelling.iter().flat_map(Worker::told).collect();
    let count = |what: &str| told.iter().filter(|line| *line == what).count();
    let (acquired, cancelled) = (count("acquired"), count("cancelled"));
    println!("{acquired} locks acquired, {cancelled} acquires cancelled");
    assert!(acquired > 20 && cancelled > 20, "both happened: {acquired}, {cancelled}");
    let held = held_after_the_ttl(&ground);
    assert!(held.is_empty(), "{held:?}");

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let jobs = start(ground.open()).await;
        for key in (0..KEYS).map(key).chain((0..3).map(|index| format!("held:{index}"))) {
            let guard = jobs.lock(&key).try_acquire().await.expect("an answer");
            assert!(guard.is_some(), "{key} is locked");
        }
        jobs.shutdown().await;
    });
}

/// What it still gives back after its last round may come after its last word.
fn has_finished(worker: &Worker) -> bool {
    worker.told().iter().any(|line| line == "finished")
}
