//! A lock by hand.

use std::time::Duration;

use super::LockError;
use super::acquire::Ask;
use super::acquire::at_hand::Instance;
use super::acquire::options::Options;
use super::guard::Guard;
use super::locked::body;
use crate::Run;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;

/// A lock by hand, on the same store and with the same guarantees as a job's: at most one holder at a time among all
/// servers, as long as the store keeps its writes and no holder is paused past its lease.
///
/// Nothing happens before [`run`](Lock::run), [`acquire`](Lock::acquire) or [`try_acquire`](Lock::try_acquire). A key
/// that a job has is the job's own lock: they exclude each other.
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
/// A lock that is free costs one round trip, and so does its release. Those who wait for the same key in one process
/// queue up, first come first served, and only the first of them asks the store; between processes there is no order.
/// A release in this process is noticed at once, one in another as soon as the store tells of it. The store is asked
/// again when the holder's lease would end, and every 1–2 s in case a message got lost; a store that cannot tell is
/// asked after 50–100 ms, growing to every 250–500 ms.
///
/// A store that does not answer is asked again for as long as the caller waits. Nothing runs meanwhile.
#[must_use = "nothing is locked before `run`, `acquire` or `try_acquire`"]
#[derive(Clone, Debug)]
pub struct Lock {
    options: Options,
}

impl Lock {
    pub(crate) fn new(instance: Option<Instance>, key: impl Into<String>) -> Self {
        Self { options: Options::new(instance, key.into()) }
    }

    /// How long the lock lasts if its holder dies, 30 s unless set and at least 1 s: `"10s"` or a
    /// [`Duration`]. While the holder lives, the lock is extended every third of it.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long [`acquire`](Lock::acquire) and [`run`](Lock::run) wait for a lock that is held. For ever unless set;
    /// `"0s"` for not at all.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the lock is extended while it is held. If not, it is lost a little before its ttl is over, unless it is
    /// [extended](Guard::extend) by hand.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Takes the lock if nobody holds it. Does not wait, nor care who does.
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
        self.ask(false)?.acquire_if_free().await
    }

    /// Waits until the lock is free, and takes it.
    ///
    /// Dropping the future at any point leaves nothing behind: what it may have won is given back.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        self.ask(false)?.acquire_or_fail().await
    }

    /// Acquires the lock, runs the code on this task for as long as the lock is held, and releases it.
    ///
    /// The code is polled only while the lease is proved. When it is lost, the code is dropped at the `await` that it is
    /// at, and this returns [`LockError::Lost`]; at the end of a shutdown's grace it returns [`LockError::Ended`]. In
    /// the code [`Run::current`] and [`assert_locked`](crate::assert_locked) work as in a job. Dropping the future drops
    /// the code first and releases the lock in the background.
    pub async fn run<T, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        body::run(self.ask(true)?, code).await
    }

    fn ask(&self, scoped: bool) -> Result<Ask, LockError> {
        Ok(Ask { options: self.options.check()?, what: ClaimPurpose::Lock, scoped })
    }
}
