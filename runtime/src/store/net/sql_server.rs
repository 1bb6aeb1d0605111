//! Shared by the stores on SQL servers: what a request does about other sessions, missing tables and expired rows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::store::{Look, Record, StoreError, StoreFuture, Swap, SwapReply, Swapped};
use crate::util::backoff::up_to;

/// Timeout for the creation of the tables, during which other servers wait.
pub(crate) const MAKING: Duration = Duration::from_secs(10);

/// The longest pause before a request is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// After so many new keys that expire, those that have expired are removed.
const SWEPT_AFTER: u32 = 32;

/// An error of a SQL server.
pub(crate) trait SqlError {
    /// Whether the request was not executed because of another session, and may be sent again.
    fn is_conflict(&self) -> bool;

    /// Whether a table does not exist.
    fn is_missing(&self) -> bool;

    /// Whether a record cannot be read.
    fn is_unreadable(&self) -> bool;

    /// Returns the error of the store, at a step of this crate.
    fn into_store_error(self, step: &'static str, location: &str) -> StoreError;
}

/// Runs a method of the store, and names the method in its error.
pub(crate) fn step<'a, T, E: SqlError>(
    step: &'static str,
    location: &'a str,
    asking: impl Future<Output = Result<T, E>> + Send + 'a,
) -> StoreFuture<'a, T> {
    Box::pin(async move { asking.await.map_err(|error| error.into_store_error(step, location)) })
}

/// Sends a request, and again after conflicts with other sessions until this time is over.
pub(crate) async fn send_despite_conflicts<T, E: SqlError, F: Future<Output = Result<T, E>>>(
    within: Duration,
    send: impl Fn() -> F,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match send().await {
            Err(error) if error.is_conflict() && pause(begun, within).await => {}
            result => return result,
        }
    }
}

/// Applies a swap, or returns the current look. There is no lock that other programs share, so the expected lock is ignored.
///
/// A swap that failed because of another session was not applied. It is sent again while the key is as expected.
pub(crate) async fn swap_or_look<E, S, L>(
    swap: &Swap,
    within: Duration,
    send: impl Fn() -> S,
    look: impl Fn() -> L,
) -> Result<SwapReply, E>
where
    E: SqlError,
    S: Future<Output = Result<Option<Swapped>, E>>,
    L: Future<Output = Result<Look, E>>,
{
    let begun = Instant::now();
    loop {
        let conflict = match send().await {
            Ok(Some(swapped)) => return Ok(SwapReply::Swapped(swapped)),
            Ok(None) => None,
            Err(error) if error.is_conflict() => Some(error),
            Err(error) => return Err(error),
        };
        let look = look().await?;
        match conflict {
            Some(error) if swap.applies_to(&look) => {
                if !pause(begun, within).await {
                    return Err(error);
                }
            }
            _ => return Ok(SwapReply::Changed(look)),
        }
    }
}

/// Waits for a random time, so that two sessions do not conflict again. Returns whether there is time for another attempt.
async fn pause(begun: Instant, within: Duration) -> bool {
    let is_time = begun.elapsed() < within;
    if is_time {
        tokio::time::sleep(up_to(PAUSE)).await;
    }
    is_time
}

/// Sends a request, and once more if the tables had to be created.
pub(crate) async fn send_with_tables<T, E, F, M>(
    making: &Mutex<()>,
    send: impl Fn() -> F,
    make: impl FnOnce() -> M,
) -> Result<T, E>
where
    E: SqlError,
    F: Future<Output = Result<T, E>>,
    M: Future<Output = Result<(), E>>,
{
    let is_missing = |result: &Result<T, E>| result.as_ref().is_err_and(SqlError::is_missing);
    let result = send().await;
    if !is_missing(&result) {
        return result;
    }
    let _one_at_a_time = making.lock().await;
    let result = send().await;
    if !is_missing(&result) {
        return result;
    }
    make().await?;
    send().await
}

/// Returns the reply to a swap that deletes a record which is expected not to exist, by a look: only the limits are checked.
pub(crate) fn delete_nothing(look: &Look, swap: &Swap) -> Option<Swapped> {
    match Record::swap(&mut None, None, look.now, swap) {
        SwapReply::Swapped(swapped) if look.version.is_none() => Some(swapped),
        _ => None,
    }
}

/// Counts the new keys that expire.
#[derive(Default)]
pub(crate) struct SweepCounter(AtomicU32);

impl SweepCounter {
    /// Counts a swap that was applied, and returns whether expired rows are to be removed now.
    pub(crate) fn count(&self, applied: &Swap) -> bool {
        let expires = applied.change.state.as_ref().is_some_and(|state| state.expires.is_some());
        let is_new_key = applied.expected.is_none() && expires;
        is_new_key && (self.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(SWEPT_AFTER)
    }
}
