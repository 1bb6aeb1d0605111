//! Work that is done once within a period.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use singleton_jobs_policy::LockDuration;

use super::LockError;
use super::acquire::default_server::WeakServer;
use super::acquire::options::{LockOptions, check_duration};
use super::acquire::{AcquireOutcome, ReleasedBy};
use super::run_locked::run_while_held;
use crate::fleet::Holder;
use crate::history::RunOutcome;
use crate::store::{ClaimPurpose, Ending};
use crate::util::duration::IntoDuration;
use crate::{Run, Timestamp};

const DEFAULT_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Work that is done once, on whichever server and however often it is requested: for example, the handling of a webhook
/// that is delivered twice.
///
/// The code runs under a lock. If it succeeds, the key is marked as done in the same step that releases the lock, and no
/// server runs it again [within](Once::within) the period. If it fails, panics or is dropped, or its server dies, the
/// next attempt runs it.
///
/// This is not "exactly once": if a server dies after the work and before the mark, the work is done again, so make
/// writes repeatable. The same can happen if the store does not confirm the release, which is retried for a ttl: then
/// this returns [`Ran`](OnceOutcome::Ran), logs an error, and the mark may be missing.
///
/// ```
/// use jobs::locks::OnceOutcome;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://once").start_all().await?;
/// for delivery in 1..=2 {
///     let handled = jobs.once("webhook:42").within("24h").run(|_| async {
///         Ok::<_, std::io::Error>("paid")
///     });
///     match handled.await? {
///         OnceOutcome::Ran(result) => assert_eq!((delivery, result), (1, "paid")),
///         OnceOutcome::AlreadyDone(when) => println!("done at {when}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "nothing is done before `run`"]
#[derive(Clone, Debug)]
pub struct Once {
    options: LockOptions,
    within: Result<Duration, String>,
}

/// The outcome of a request to do work once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnceOutcome<T> {
    /// This call did the work, and the code returned this value.
    Ran(T),
    /// The work was done before, at this instant of the store's clock.
    AlreadyDone(Timestamp),
    /// Another caller is doing the work.
    InProgress(Holder),
}

/// The reason why work was not done.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The code returned this error. The next attempt runs it again.
    Failed(E),
    /// The lock could not be acquired, or was lost while the code ran.
    Lock(LockError),
}

impl Once {
    pub(super) fn new(server: Option<WeakServer>, key: impl Into<String>) -> Self {
        let mut options = LockOptions::new(server, key.into());
        options.wait(Duration::ZERO);
        Self { options, within: Ok(DEFAULT_WITHIN) }
    }

    pub(super) fn with_options(options: LockOptions, within: Duration) -> Self {
        Self { options, within: Ok(within) }
    }

    /// The period in which the work is not done again: `"24h"` or a [`Duration`], from 1 s to 3650 days. 24 hours by
    /// default.
    pub fn within(mut self, within: impl IntoDuration) -> Self {
        self.within = within.into_duration();
        self
    }

    /// How long the lock lasts if its server dies: `"10s"` or a [`Duration`], from 1 s to 7 days. 30 s by default.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long to wait for a caller that is doing the work: after that it is [done](OnceOutcome::AlreadyDone), or this
    /// call does it. Does not wait by default.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the lock is extended while the code runs; see [`Lock::keep_alive`](crate::locks::Lock::keep_alive).
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Runs the code if the work is not done and no other caller is doing it.
    ///
    /// The code is polled only while its lease is proved, as in [`Lock::run`](crate::locks::Lock::run).
    pub async fn run<T, E, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<OnceOutcome<T>, OnceError<E>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let done_for = check_duration(LockDuration::Within, self.within)?;
        let request = self.options.request(ClaimPurpose::Once, ReleasedBy::Crate)?;
        let guard = match request.acquire().await? {
            AcquireOutcome::Lock(guard) => guard,
            AcquireOutcome::AlreadyDone(at) => return Ok(OnceOutcome::AlreadyDone(at)),
            AcquireOutcome::Held { holder, .. } => return Ok(OnceOutcome::InProgress(holder)),
        };
        let run = guard.run.clone().done_for_once(done_for);
        match run_while_held(&guard, async move { code(run).await }).await? {
            Ok(value) => {
                // If the work was finished in a transaction, the mark of that transaction counts.
                let done_for = (!guard.run.finish_called()).then_some(done_for);
                let ending = Ending { done_for, ..guard.ending(RunOutcome::Succeeded) };
                if let Err(error) = guard.end_with(ending).await {
                    let key = guard.key();
                    tracing::error!(
                        target: "jobs", key, %error,
                        "[{key}] the work succeeded, but the store did not confirm that it is marked as done: {error}; \
                         it may be done again"
                    );
                }
                Ok(OnceOutcome::Ran(value))
            }
            Err(error) => {
                drop(guard.end(RunOutcome::Failed).await); // a failure is logged; the lock expires after its ttl
                Err(OnceError::Failed(error))
            }
        }
    }
}

impl<E> From<LockError> for OnceError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
        }
    }
}

/// Not every error type of the code implements [`Error`]: `anyhow::Error` does not.
impl<E: fmt::Debug + fmt::Display> Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its message is the one above.
            Self::Lock(error) => error.source(),
            Self::Failed(_) => None,
        }
    }
}
