//! Locks by hand, on the same store and under the same kind of lease as the jobs' runs.
//!
//! [options] → [acquire], which stands in [line] and makes a [claiming] → [hold], which keeps the lock alive →
//! [guard].

use crate::handle::Jobs;

mod acquire;
mod at_hand;
mod body;
mod claiming;
mod duration;
mod error;
mod guard;
mod hold;
mod line;
mod mutex;
mod options;
mod pause;

pub(crate) use at_hand::{Instance, started};
pub use duration::IntoDuration;
pub use error::LockError;
pub use guard::Guard;
pub(crate) use line::Lines;
pub use mutex::Lock;

impl Jobs {
    /// A lock by hand. See [`Lock`].
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.instance()), key)
    }

    /// While the future is polled, [`jobs::lock`](crate::lock()) and its like use this scheduler, however deep in it
    /// they are called. Tasks that it spawns are outside.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://scope").start_all().await?;
    /// async fn pay() -> Result<(), jobs::LockError> {
    ///     jobs::lock("payment:123").run(|_| async { /* … */ }).await
    /// }
    ///
    /// jobs.scope(pay()).await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        at_hand::scope(self.at_work(), future).await
    }
}

/// A lock by hand, on the scheduler at hand: that of the current run; else that of a [scope](Jobs::scope); else the only
/// one that was started in this process. Where there is none, or more than one, acquiring it is an error.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = jobs::builder().without_jobs().url("memory://at-hand").start_all().await?;
/// let guard = jobs::lock("payment:123").acquire().await?;
/// guard.release().await?;
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
pub fn lock(key: impl Into<String>) -> Lock {
    Lock::new(None, key)
}
