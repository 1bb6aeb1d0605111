//! Manual locks: a mutex, a semaphore, leader election and run-once, on the same store and under the same kind of lease
//! as the jobs' runs.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::HeldLock;
use crate::observe::event::EventKind;
use crate::server::Server;
use crate::server::handle::Jobs;
use crate::store::{StoreError, StoreErrorKind};

mod acquire;
mod error;
mod guard;
mod held_here;
mod hold;
mod key;
mod leader;
mod locked;
mod mutex;
mod once;
mod semaphore;

pub(crate) use acquire::at_hand::{Instance, started};
pub(crate) use acquire::line::Lines;
pub use error::LockError;
pub use guard::Guard;
pub(crate) use held_here::HeldHere;
pub use key::{Key, KeyPart};
pub use leader::Leader;
pub use leader::campaign::{Campaign, Standing};
pub use leader::term::Term;
pub use locked::{Completion, Locking, NotRun, call, call_once};
pub use mutex::Lock;
pub use once::{Once, OnceError, RunOnce};
pub use semaphore::Semaphore;

/// On Redis all that is held is found by a walk over the whole database.
const LIST_WITHIN: Duration = Duration::from_secs(30);

const BREAK_WITHIN: Duration = Duration::from_secs(5);

impl Jobs {
    /// A lock by hand. See [`Lock`].
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.instance()), key)
    }

    /// A lock that so many may hold at once. See [`Semaphore`].
    pub fn semaphore(&self, key: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore::new(Some(self.instance()), key, permits)
    }

    /// The election of a leader. See [`Leader`].
    pub fn leader(&self, key: impl Into<String>) -> Leader {
        Leader::new(Some(self.instance()), key)
    }

    /// Work that is done once. See [`RunOnce`].
    pub fn once(&self, key: impl Into<String>) -> RunOnce {
        RunOnce::new(Some(self.instance()), key)
    }

    /// What is held on the store in this namespace, on whichever server: locks by hand, slots, leaders, and the jobs
    /// that run.
    pub async fn locks(&self) -> Result<Vec<HeldLock>, StoreError> {
        list(self.at_work()).await
    }

    /// Frees a key, and every slot of it, whoever holds them: for an operator who knows that the holder is gone, or must
    /// not go on. Returns what was held; nothing if nobody held it.
    ///
    /// The holder learns of it at its next keep-alive, a third of its ttl later at most, and until then still works.
    /// Whoever takes the lock before that works beside it: only [fences](Guard::fence) keep their writes apart. It is in
    /// the key's [history](Jobs::history) as [`Broken`](crate::history::RunOutcome::Broken), and on this server in the log and
    /// an [event](EventKind::LockBroken). The run of a job can be broken, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://break").start_all().await?;
    /// let guard = jobs.lock("payment:123").ttl("1s").acquire().await?;
    /// assert_eq!(jobs.locks().await?.len(), 1);
    /// let held = jobs.break_lock("payment:123").await?;
    /// assert_eq!(held[0].fence, Some(guard.fence()));
    /// guard.lost().await;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn break_lock(&self, key: &str) -> Result<Vec<HeldLock>, StoreError> {
        let name = key.to_owned();
        let held = self.ask("break_lock", move |server| async move {
            server.requests(BREAK_WITHIN).break_lock(&name, &server.id, server.remember).await
        });
        let held = held.await?;
        let server = self.at_work();
        if !held.is_empty() {
            server.tell_of(key, EventKind::LockBroken { held: held.clone() });
        }
        for slots in [false, true] {
            server.lines.freed(key, slots);
        }
        Ok(held)
    }

    /// While the future is polled, [`jobs::lock`](crate::lock()) and its like use this scheduler, however deep in it
    /// they are called. Tasks that it spawns are outside.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://scope").start_all().await?;
    /// async fn pay() -> Result<(), jobs::locks::LockError> {
    ///     jobs::lock("payment:123").run(|_| async { /* … */ }).await
    /// }
    ///
    /// jobs.scope(pay()).await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        acquire::at_hand::scope(self.at_work(), future).await
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

/// A lock that so many may hold at once, on the scheduler at hand, as [`lock`] has it. See [`Semaphore`].
pub fn semaphore(key: impl Into<String>, permits: u32) -> Semaphore {
    Semaphore::new(None, key, permits)
}

/// The election of a leader, on the scheduler at hand, as [`lock`] has it. See [`Leader`].
pub fn leader(key: impl Into<String>) -> Leader {
    Leader::new(None, key)
}

/// Work that is done once, on the scheduler at hand, as [`lock`] has it. See [`RunOnce`].
pub fn once(key: impl Into<String>) -> RunOnce {
    RunOnce::new(None, key)
}

/// What is held, asked for on the scheduler's thread.
async fn list(server: &Arc<Server>) -> Result<Vec<HeldLock>, StoreError> {
    let asking = server.clone();
    let answer = server.host.spawn(async move { asking.requests(LIST_WITHIN).locks().await });
    answer.await.unwrap_or_else(|_| {
        let (kind, location) = (StoreErrorKind::Unreachable, server.store.location());
        Err(StoreError::new(kind, "locks", location, "the scheduler has ended"))
    })
}
