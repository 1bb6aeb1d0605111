//! A manual lock.

use std::time::Duration;

use super::LockError;
use super::acquire::ReleasedBy;
use super::acquire::default_server::WeakServer;
use super::acquire::options::LockOptions;
use super::guard::Guard;
use super::run_locked::acquire_and_run;
use crate::Run;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;

/// A manual lock, on the same store and with the same guarantees as the lock of a job: at most one holder at a time on all
/// servers, as long as the store keeps its writes and no holder is paused past its lease.
///
/// Nothing happens before [`run`](Lock::run), [`acquire`](Lock::acquire) or [`try_acquire`](Lock::try_acquire). A lock
/// with the key of a job is the lock of that job: the two exclude each other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://lock").start_all().await?;
/// let mut balance = 100;
/// let lock = jobs.lock("payment:123").ttl("10s").wait("5s");
/// let left = lock.run(async |run| {
///     balance -= 30; // send run.fence() along with the write
///     println!("fence {}", run.fence());
///     balance
/// });
/// assert_eq!(left.await?, 70);
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # Waiting
///
/// Acquiring a free lock takes one round trip, and so does releasing it. Callers in one process that wait for the same
/// key form a queue, first in, first out, and only the first of them asks the store. Between processes there is no order.
/// A release in this process is noticed at once, a release in another one as soon as the store notifies. The store is
/// asked again when the holder's lease would end, and every 1–2 s in case a notification was lost. A store that cannot
/// notify is asked after 50–100 ms, growing to every 250–500 ms.
///
/// A store that does not reply is asked again for as long as the caller waits. Nothing runs meanwhile.
#[must_use = "nothing is locked before `run`, `acquire` or `try_acquire`"]
#[derive(Clone, Debug)]
pub struct Lock {
    options: LockOptions,
}

impl Lock {
    pub(crate) fn new(server: Option<WeakServer>, key: impl Into<String>) -> Self {
        Self { options: LockOptions::new(server, key.into()) }
    }

    /// How long the lock lasts if its holder dies: `"10s"` or a [`Duration`], from 1 s to 7 days. 30 s by default. The
    /// lock of a living holder is extended every third of it.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long [`acquire`](Lock::acquire) and [`run`](Lock::run) wait for a lock that is held: `"5s"` or a
    /// [`Duration`]. `"0s"` does not wait. Without a limit by default.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the lock is extended while it is held. If not, it is lost shortly before its ttl is over, unless
    /// [`Guard::extend`] extends it.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Acquires the lock if it is free. Does not wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://try").start_all().await?;
    /// let first = jobs.lock("report").try_acquire().await?;
    /// assert!(first.is_some());
    /// assert!(jobs.lock("report").try_acquire().await?.is_none());
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(mut self) -> Result<Option<Guard>, LockError> {
        self.options.wait(Duration::ZERO);
        self.options.request(ClaimPurpose::Lock, ReleasedBy::Caller)?.try_acquire_guard().await
    }

    /// Waits until the lock is free, and acquires it.
    ///
    /// The future can be dropped at any point: a lock that it may have acquired is released.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        self.options.request(ClaimPurpose::Lock, ReleasedBy::Caller)?.acquire_guard().await
    }

    /// Acquires the lock, runs the code on this task while the lock is held, and releases the lock.
    ///
    /// The code is polled only while the lease is proved. When the lock is lost, the code is dropped at the `await` that
    /// it is at, and this returns [`LockError::Lost`]; when the grace of a shutdown is over, [`LockError::ShutDown`].
    /// [`Run::current`] and [`assert_locked`](crate::assert_locked) work in the code as in a job. Dropping the future
    /// drops the code first, and then releases the lock in the background.
    pub async fn run<T, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        acquire_and_run(self.options.request(ClaimPurpose::Lock, ReleasedBy::Crate)?, code).await
    }
}
