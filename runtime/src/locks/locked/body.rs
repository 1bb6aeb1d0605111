//! Code that runs only while its lock is held.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::Run;
use crate::history::RunOutcome;
use crate::job::current;
use crate::locks::LockError;
use crate::locks::acquire::Ask;
use crate::locks::guard::Guard;

/// Acquires what is asked for, runs the code under it, and releases it.
pub(crate) async fn run<T, Fut>(ask: Ask, code: impl FnOnce(Run) -> Fut) -> Result<T, LockError>
where
    Fut: Future<Output = T>,
{
    let guard = ask.acquire_or_fail().await?;
    let run = guard.run().clone();
    let value = under_lock(&guard, async move { code(run).await }).await?;
    // The code has run to its end under the lock. A release that fails is logged, and the lock expires.
    drop(guard.end(guard.ending(RunOutcome::Succeeded)).await);
    Ok(value)
}

/// Polls the code only while the lease is proved, on the caller's task. When the lock is lost, or the shutdown's grace
/// is over, the code is dropped at the `await` it is at; if it never waits, its lease is kept for as long as it goes on.
pub(crate) async fn under_lock<F: Future>(guard: &Guard, body: F) -> Result<F::Output, LockError> {
    let mut body = pin!(body);
    let mut lost = pin!(guard.lost());
    let mut stopped = pin!(guard.stopped().raised());
    std::future::poll_fn(move |polling| {
        if stopped.as_mut().poll(polling).is_ready() {
            return Poll::Ready(Err(LockError::ended(guard.key())));
        }
        // It also wakes this task when the lease is lost.
        if lost.as_mut().poll(polling).is_ready() {
            return Poll::Ready(Err(LockError::lost(guard.key())));
        }
        match guard.validity().poll_valid(polling) {
            Poll::Ready(true) => poll_as_current(guard, body.as_mut(), polling).map(Ok),
            Poll::Ready(false) => Poll::Ready(Err(LockError::lost(guard.key()))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn poll_as_current<F: Future>(
    guard: &Guard,
    body: Pin<&mut F>,
    polling: &mut Context<'_>,
) -> Poll<F::Output> {
    let _current = current::enter(guard.run());
    body.poll(polling)
}
