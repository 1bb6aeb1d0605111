//! Code that runs only while its lock is held.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use super::LockError;
use super::acquire::LockRequest;
use super::guard::Guard;
use crate::Run;
use crate::history::RunOutcome;
use crate::job::current;

/// Acquires the lock, runs the code under it, and releases it.
pub(crate) async fn acquire_and_run<T, Fut>(
    request: LockRequest,
    code: impl FnOnce(Run) -> Fut,
) -> Result<T, LockError>
where
    Fut: Future<Output = T>,
{
    let guard = request.acquire_guard().await?;
    let run = guard.run.clone();
    let value = run_while_held(&guard, async move { code(run).await }).await?;
    // The code has ended under the lock. A release that fails is logged, and the lock expires.
    drop(guard.end(RunOutcome::Succeeded).await);
    Ok(value)
}

/// Polls the code on the caller's task, and only while the lease is proved. When the lock is lost, or the shutdown's grace
/// is over, the code is dropped at the `await` that it is at. Code that never awaits keeps its lease until it ends.
pub(crate) async fn run_while_held<F: Future>(guard: &Guard, code: F) -> Result<F::Output, LockError> {
    let mut code = pin!(code);
    let mut lost = pin!(guard.lost());
    let mut stopped = pin!(guard.stopped.raised());
    std::future::poll_fn(move |polling| {
        if stopped.as_mut().poll(polling).is_ready() {
            return Poll::Ready(Err(LockError::shut_down(guard.key())));
        }
        // This also wakes the task when the lease is lost.
        if lost.as_mut().poll(polling).is_ready() {
            return Poll::Ready(Err(LockError::lost(guard.key())));
        }
        match guard.validity.poll_valid(polling) {
            Poll::Ready(true) => poll_as_current(guard, code.as_mut(), polling).map(Ok),
            Poll::Ready(false) => Poll::Ready(Err(LockError::lost(guard.key()))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Polls with the guard's run as [`Run::current`].
fn poll_as_current<F: Future>(
    guard: &Guard,
    code: Pin<&mut F>,
    polling: &mut Context<'_>,
) -> Poll<F::Output> {
    let _current = current::enter(&guard.run);
    code.poll(polling)
}
