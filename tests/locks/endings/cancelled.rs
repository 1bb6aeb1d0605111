//! An acquire that is dropped at any point leaves nothing locked.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use jobs::Jobs;
use jobs::locks::LockError;
use jobs::store::redis::RedisStore;

use crate::kit::{fleet, millis, secs};
use support::redis_server::RedisServer;

/// Polls a future this number of times, with a pause before each further poll, and drops it. Returns whether it ended.
async fn drop_after<F: Future>(polls: usize, pause: Duration, future: F) -> bool {
    let mut future = pin!(future);
    for poll in 0..polls {
        if poll > 0 {
            tokio::time::sleep(pause).await;
        }
        if poll_fn(|polling| Poll::Ready(future.as_mut().poll(polling).is_ready())).await {
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn acquire_dropped_after_any_number_of_polls_leaves_nothing_locked() {
    let fleet = fleet(2).await;
    for held_before in [false, true] {
        fleet.server(0).set_latency(millis(10));
        let (mut cancelled, mut ended) = (0, 0);
        for polls in 0..90 {
            let holder =
                if held_before { fleet.server(1).lock("k").try_acquire().await.unwrap() } else { None };
            let acquiring = async {
                let guard = fleet.server(0).lock("k").ttl("600s").acquire().await.unwrap();
                guard.release().await.unwrap();
            };
            let release = async {
                tokio::time::sleep(millis(25)).await;
                drop(holder);
            };
            let (done, ()) = tokio::join!(drop_after(polls, millis(1), acquiring), release);
            if done {
                ended += 1;
            } else {
                cancelled += 1;
            }
            let next = fleet.server(1).lock("k").wait("1s").acquire().await;
            next.unwrap_or_else(|error| panic!("after {polls} polls: {error}")).release().await.unwrap();
        }
        assert!(cancelled > 10 && ended > 10, "both happened: {cancelled}, {ended}");
        assert_eq!(fleet.server(1).locks().await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_dropped_while_the_store_hangs_leaves_nothing_locked() {
    let fleet = fleet(2).await;
    fleet.server(0).lose_replies(true);
    let ended = drop_after(50, millis(20), fleet.server(0).lock("k").ttl("600s").acquire()).await;
    assert!(!ended);
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none(), "the control: it had won");
    fleet.server(0).lose_replies(false);
    let next = fleet.server(1).lock("k").wait("5s").acquire().await;
    assert!(next.is_ok(), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_locked_code_releases_its_lock() {
    let fleet = fleet(2).await;
    let running = fleet.server(0).lock("k").ttl("600s").run(|_| std::future::pending::<()>());
    assert!(!drop_after(20, millis(10), running).await);
    let next = fleet.server(1).lock("k").wait("1s").acquire().await;
    assert!(next.is_ok(), "{next:?}");
}

async fn on(server: &RedisServer, namespace: &str) -> Jobs {
    let store = RedisStore::open(&server.url(), Some(namespace)).unwrap();
    jobs::builder().without_jobs().store(store).start_all().await.unwrap()
}

#[tokio::test]
async fn acquire_dropped_on_redis_leaves_nothing_locked() {
    let server = RedisServer::shared();
    let (one, other) = (on(&server, "cancelled").await, on(&server, "cancelled").await);
    let (mut cancelled, mut ended) = (0, 0);
    for round in 0..3 {
        for polls in 0..40 {
            // From microseconds to milliseconds between two polls, so that every step is interrupted.
            let pause = Duration::from_micros([20, 100, 500][round]);
            let key = format!("k{}", polls % 7);
            let acquiring = async {
                let guard = one.lock(&key).ttl("60s").acquire().await?;
                guard.release().await
            };
            if drop_after(polls, pause, acquiring).await {
                ended += 1;
            } else {
                cancelled += 1;
            }
            let next = other.lock(&key).wait("10s").acquire().await;
            let next = next.unwrap_or_else(|error| panic!("after {polls} polls: {error}"));
            if polls % 2 == 0 {
                next.release().await.unwrap();
                continue;
            }
            // The same for a caller that waits for a lock that is held.
            let waiting = one.lock(&key).ttl("60s").acquire();
            assert!(!drop_after(polls.min(10), pause, waiting).await);
            next.release().await.unwrap();
            let last = other.lock(&key).wait("10s").acquire().await;
            last.unwrap_or_else(|error| panic!("behind a holder, after {polls} polls: {error}"))
                .release()
                .await
                .unwrap();
        }
    }
    assert!(cancelled > 3 && ended > 3, "both happened: {cancelled}, {ended}");
    one.shutdown().await;
    let left = other.locks().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    other.shutdown().await;
}

#[tokio::test]
async fn lock_of_a_server_that_has_shut_down_is_an_error() {
    let server = RedisServer::shared();
    let jobs = on(&server, "ended").await;
    let lock = jobs.lock("k");
    drop(jobs);
    let give_up = tokio::time::Instant::now() + secs(20);
    while !matches!(lock.clone().try_acquire().await, Err(LockError::ShutDown { .. })) {
        assert!(tokio::time::Instant::now() < give_up, "the server did not shut down");
        tokio::time::sleep(millis(20)).await;
    }
}
