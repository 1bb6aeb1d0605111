//! Manual locks: a mutex, a semaphore, leader election and run-once, on the same store and with the same leases as runs of
//! jobs.
//!
//! Create them with [`jobs::lock`](crate::lock()), [`jobs::semaphore`](crate::semaphore()), [`jobs::leader`](crate::leader()) and
//! [`jobs::once`](crate::once()), or with the methods of the same names on [`Jobs`]. [`#[locked]`](macro@crate::locked) locks
//! each call of a function.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{ActionKind, HeldLock};
use crate::observe::event::EventKind;
use crate::server::Server;
use crate::server::error::OperateError;
use crate::server::handle::Jobs;

mod acquire;
mod error;
mod guard;
mod held_keys;
mod keeper;
mod leader;
pub(crate) mod locked;
mod mutex;
mod once;
mod run_locked;
mod semaphore;

pub(crate) use acquire::default_server::{WeakServer, add_started};
pub(crate) use acquire::wait_queue::WaitQueues;
pub use error::{LockError, LockOperation};
pub use guard::Guard;
pub(crate) use held_keys::HeldKeys;
pub use leader::Leader;
pub use leader::candidate::{Candidate, LeaderStatus};
pub use leader::leadership::Leadership;
pub use locked::NotRun;
pub use locked::key::KeyPart;
pub use mutex::Lock;
pub use once::{Once, OnceError, OnceOutcome};
pub use semaphore::Semaphore;

/// Long, because on Redis it takes a scan of the whole database.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

const BREAK_TIMEOUT: Duration = Duration::from_secs(5);

impl Jobs {
    /// Returns a manual lock. See [`Lock`].
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.weak_server()), key)
    }

    /// Returns a lock that this number of callers can hold at once. See [`Semaphore`].
    pub fn semaphore(&self, key: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore::new(Some(self.weak_server()), key, permits)
    }

    /// Returns a leader election. See [`Leader`].
    pub fn leader(&self, key: impl Into<String>) -> Leader {
        Leader::new(Some(self.weak_server()), key)
    }

    /// Returns work that is done once. See [`Once`].
    pub fn once(&self, key: impl Into<String>) -> Once {
        Once::new(Some(self.weak_server()), key)
    }

    /// Lists what all servers hold on the store in this namespace: manual locks, slots, leaderships, and the locks of
    /// running jobs.
    pub async fn locks(&self) -> Result<Vec<HeldLock>, OperateError> {
        list(self.server()).await
    }

    /// Releases a key and all its slots, whichever server holds them: for an operator who knows that the holder is gone,
    /// or must stop. Returns what was held.
    ///
    /// The holder notices at its next keep-alive, at most a third of its ttl later, and works until then. A server that
    /// acquires the lock before that works at the same time: only [fences](Guard::fence) keep their writes apart. The key's
    /// [history](Jobs::history) records it as [`Broken`](crate::history::RunOutcome::Broken); this server logs it and emits an
    /// [event](EventKind::LockBroken). The run of a job can be broken, too.
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
    pub async fn break_lock(&self, key: &str) -> Result<Vec<HeldLock>, OperateError> {
        let (name, by) = (key.to_owned(), self.actor());
        let held = self.ask(move |server| async move {
            server.requests(BREAK_TIMEOUT).break_lock(&name, &by, server.history_limit).await
        });
        let held = held.await?;
        let server = self.server();
        if !held.is_empty() {
            server.emit_for_key(key, EventKind::LockBroken { held: held.clone() });
            self.note_action(ActionKind::Unlock, Some(key), None).await;
        }
        server.wait_queues.wake_all(key);
        Ok(held)
    }

    /// Polls the future with this server as the default one of [`jobs::lock`](crate::lock()) and the other free functions,
    /// however deep in the future they are called. Tasks that the future spawns are outside of the scope.
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
        acquire::default_server::scope(self.server(), future).await
    }
}

/// The functions that need no handle. They are exported at the crate's root.
pub(crate) mod functions {
    use super::{Leader, Lock, Once, Semaphore};

    /// Returns a manual lock on the default server: that of the current run; else that of the
    /// [scope](crate::Jobs::scope); else the only one that was started in this process. If there is no such server,
    /// acquiring the lock fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs = jobs::builder().without_jobs().url("memory://default-server").start_all().await?;
    /// let guard = jobs::lock("payment:123").acquire().await?;
    /// guard.release().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn lock(key: impl Into<String>) -> Lock {
        Lock::new(None, key)
    }

    /// Returns a lock that this number of callers can hold at once, on the default server, as [`lock`]. See
    /// [`Semaphore`].
    pub fn semaphore(key: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore::new(None, key, permits)
    }

    /// Returns a leader election on the default server, as [`lock`]. See [`Leader`].
    pub fn leader(key: impl Into<String>) -> Leader {
        Leader::new(None, key)
    }

    /// Returns work that is done once, on the default server, as [`lock`]. See [`Once`].
    pub fn once(key: impl Into<String>) -> Once {
        Once::new(None, key)
    }
}

/// Lists what is held. The request runs on the server's thread.
async fn list(server: &Arc<Server>) -> Result<Vec<HeldLock>, OperateError> {
    let asking = server.clone();
    let answer = server.host.spawn(async move { asking.requests(LIST_TIMEOUT).locks().await });
    Ok(answer.await.map_err(|_| OperateError::ShuttingDown)??)
}
