//! Requests over connections of the application's pool.
//!
//! A request is one task of the application's runtime: the pool's connections live there, and outlive the scheduler. A caller
//! that stops waiting ends the task, and with it the connection.

use std::ops::{Deref, DerefMut};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::timeouts::Timeouts;
#[cfg(feature = "sqlx")]
use crate::store::StoreErrorKind;

/// A connection that a pool lends. Dropping it returns it.
pub(crate) trait PooledConnection: Send + 'static {
    /// Closes the connection instead of returning it.
    fn discard(self);
}

/// A borrowed connection, which is discarded unless it is returned: a statement may be in progress on it, or a transaction be
/// open.
pub(crate) struct Borrowed<C: PooledConnection>(Option<C>);

impl<C: PooledConnection> Borrowed<C> {
    /// Returns the connection to its pool.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<C: PooledConnection> Deref for Borrowed<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.0.as_ref().expect("only `give_back` and `drop` take it")
    }
}

impl<C: PooledConnection> DerefMut for Borrowed<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.0.as_mut().expect("only `give_back` and `drop` take it")
    }
}

impl<C: PooledConnection> Drop for Borrowed<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.discard();
        }
    }
}

/// The reason why a request has no answer.
pub(crate) enum RequestFailure<E> {
    /// No connection was lent in time.
    NotLent,
    /// The server did not answer in time.
    Unanswered,
    /// The task was cancelled, or the client panicked.
    TaskEnded,
    /// The pool, the client or the server returned an error.
    Error(E),
}

pub(crate) const ALL_IN_USE: &str = "all of them are in use, or no new one can be opened; make the pool larger, or give the jobs their own \
                                     pool";
pub(crate) const POOL_CLOSED: &str = "the pool has been closed";
pub(crate) const TASK_ENDED: &str = "the application's runtime has ended, or the pool's client panicked";

/// Returns the application's runtime, in which this function of a store is called.
pub(crate) fn application(function: &str) -> Result<Handle, String> {
    let outside = |_| format!("no Tokio runtime; call `{function}` inside the application's runtime");
    Handle::try_current().map_err(outside)
}

/// Borrows a connection, and talks over it. The caller measures the timeouts, because the application's runtime may be blocked.
pub(crate) async fn request<C, T, E, F>(
    app: &Handle,
    timeouts: Timeouts,
    borrow: impl Future<Output = Result<C, E>> + Send + 'static,
    talk: impl FnOnce(Borrowed<C>) -> F + Send + 'static,
) -> Result<T, RequestFailure<E>>
where
    C: PooledConnection,
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let (lent, is_lent) = oneshot::channel();
    let answer = AbortOnDropHandle::new(app.spawn(async move {
        let connection = Borrowed(Some(borrow.await?));
        if lent.send(()).is_err() {
            // The caller has stopped waiting, and ends this task.
            connection.give_back();
            return std::future::pending().await;
        }
        talk(connection).await
    }));
    // If the pool returns an error, the sender is dropped.
    if timeout(timeouts.connect, is_lent).await.is_err() {
        return Err(RequestFailure::NotLent);
    }
    match timeout(timeouts.response, answer).await {
        Ok(Ok(result)) => result.map_err(RequestFailure::Error),
        Ok(Err(_)) => Err(RequestFailure::TaskEnded),
        Err(_) => Err(RequestFailure::Unanswered),
    }
}

#[cfg(feature = "sqlx")]
impl<D: sqlx::Database> PooledConnection for sqlx::pool::PoolConnection<D> {
    fn discard(self) {
        // `close` would wait for the statement that is in progress.
        drop(self.detach());
    }
}

/// Classifies an error that is not the server's.
#[cfg(feature = "sqlx")]
pub(crate) fn sqlx_error(error: &sqlx::Error) -> (StoreErrorKind, String) {
    match error {
        sqlx::Error::PoolTimedOut => {
            (StoreErrorKind::TimedOut, format!("no connection was lent in time: {ALL_IN_USE}"))
        }
        sqlx::Error::PoolClosed => (StoreErrorKind::Unreachable, POOL_CLOSED.to_owned()),
        sqlx::Error::Tls(_) => (StoreErrorKind::Untrusted, error.to_string()),
        _ => match super::errors::find(error).and_then(super::errors::advice) {
            Some(advice) => (StoreErrorKind::Unreachable, format!("{error}: {advice}")),
            None => (StoreErrorKind::Unreachable, error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests;
