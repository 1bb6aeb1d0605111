use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(2), response: Duration::from_secs(1) };

/// Counts the connections that are returned, and those that are closed.
#[derive(Clone, Default)]
struct CountingPool(Arc<[AtomicU32; 2]>);

struct CountedConnection(CountingPool, bool);

impl CountingPool {
    fn lend(self) -> std::future::Ready<Result<CountedConnection, ()>> {
        std::future::ready(Ok(CountedConnection(self, false)))
    }

    fn returned_and_closed(&self) -> [u32; 2] {
        [0, 1].map(|index| self.0[index].load(Ordering::SeqCst))
    }
}

impl PooledConnection for CountedConnection {
    fn discard(mut self) {
        self.1 = true;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.0[usize::from(self.1)].fetch_add(1, Ordering::SeqCst);
    }
}

/// The task of a request ends a little later than its caller.
async fn settled(pool: &CountingPool) -> [u32; 2] {
    tokio::time::sleep(Duration::from_millis(1)).await;
    pool.returned_and_closed()
}

#[tokio::test(start_paused = true)]
async fn connection_is_returned_only_by_a_request_that_gives_it_back() {
    let (pool, app) = (CountingPool::default(), Handle::current());
    let answered = request(&app, TIMEOUTS, pool.clone().lend(), async |connection| {
        connection.give_back();
        Ok(7)
    });
    assert!(matches!(answered.await, Ok(7)));
    assert_eq!(settled(&pool).await, [1, 0]);
    let failed = request(&app, TIMEOUTS, pool.clone().lend(), async |_connection| Err::<(), ()>(()));
    assert!(matches!(failed.await, Err(RequestFailure::Error(()))));
    assert_eq!(settled(&pool).await, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn connection_is_closed_if_its_request_is_not_answered_in_time_or_dropped() {
    let (pool, app) = (CountingPool::default(), Handle::current());
    let silent = || {
        request(&app, TIMEOUTS, pool.clone().lend(), async |_connection| pending::<Result<(), ()>>().await)
    };
    assert!(matches!(silent().await, Err(RequestFailure::Unanswered)));
    assert_eq!(settled(&pool).await, [0, 1]);
    assert!(tokio::time::timeout(TIMEOUTS.response / 2, silent()).await.is_err());
    assert_eq!(settled(&pool).await, [0, 2]);
}

#[tokio::test(start_paused = true)]
async fn caller_that_gives_up_leaves_the_queue_and_an_ended_runtime_is_an_error() {
    let (pool, app) = (CountingPool::default(), Handle::current());
    let slow = |pool: CountingPool| async {
        tokio::time::sleep(TIMEOUTS.connect * 2).await;
        pool.lend().await
    };
    let talk = async |_connection| pending::<Result<(), ()>>().await;
    assert!(matches!(request(&app, TIMEOUTS, slow(pool.clone()), talk).await, Err(RequestFailure::NotLent)));
    tokio::time::sleep(TIMEOUTS.connect * 2).await;
    assert_eq!(settled(&pool).await, [0, 0], "the caller has left the queue");
    let other = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let ended = other.handle().clone();
    other.shutdown_background();
    let refused = request(&ended, TIMEOUTS, pool.clone().lend(), talk).await;
    assert!(matches!(refused, Err(RequestFailure::TaskEnded)));
}
