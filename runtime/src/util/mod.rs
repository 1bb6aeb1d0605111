//! Helpers that do not depend on jobs.

use std::future::poll_fn;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

pub(crate) mod backoff;
pub mod clock;
pub(crate) mod duration;
pub(crate) mod planted;
pub(crate) mod probe;
pub(crate) mod random;
pub(crate) mod signal;
pub(crate) mod spawner;
pub(crate) mod token;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod turns;
pub(crate) mod watched;

pub(crate) use random::random;

/// Locks a mutex whose value is consistent even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets every task that is ready be polled first. (`yield_now` reverses the order of tasks that yield together.)
pub(crate) async fn yield_to_ready_tasks() {
    let mut yielded = false;
    poll_fn(|polling| {
        if replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        polling.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
