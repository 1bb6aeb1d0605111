//! A lock that is held.

use std::fmt;
use std::sync::Arc;

use singleton_jobs_policy::LockDuration;
use tokio::sync::{mpsc, oneshot};

use super::LockError;
use super::acquire::ReleasedBy;
use super::acquire::options::check_duration;
use super::keeper::{CommandReply, KeeperCommand};
use crate::Run;
use crate::history::RunOutcome;
use crate::lease::validity::Validity;
use crate::store::Ending;
use crate::util::duration::IntoDuration;
use crate::util::watched::Flag;

/// A lock, or a slot of a [semaphore](crate::locks::Semaphore), that is held. The server's own thread keeps it alive, so code
/// that blocks the application's runtime does not lose it.
///
/// Dropping the guard releases the lock in the background. If the process or the server ends before the store confirms
/// it, the lock expires after its ttl. [`release`](Guard::release) waits for the confirmation, and reports whether the
/// lock was held until then.
///
/// A lock is lost if the store is unreachable for too long, this process is suspended, an operator
/// [breaks](crate::Jobs::break_lock) the lock, or the server shuts down. The guard reports it before the store grants the
/// lock to another server. Then stop the work: [`Lock::run`](crate::locks::Lock::run) does that by itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://guard").start_all().await?;
/// let guard = jobs.lock("payment:123").ttl("10s").acquire().await?;
/// tokio::select! {
///     () = guard.lost() => println!("another server may hold it now"),
///     () = async { /* write, with guard.fence() */ } => guard.release().await?,
/// }
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "dropping this guard releases the lock; keep it for as long as the lock is needed"]
pub struct Guard {
    pub(crate) run: Run,
    pub(super) validity: Arc<Validity>,
    /// Raised when the code under the lock must stop, because the shutdown's grace is over.
    pub(super) stopped: Arc<Flag>,
    pub(super) commands: mpsc::UnboundedSender<KeeperCommand>,
    pub(super) remember: usize,
    pub(super) released_by: ReleasedBy,
}

impl Guard {
    /// The lock's key.
    pub fn key(&self) -> &str {
        self.run.key()
    }

    /// A number greater than that of every earlier holder of this key, as [`Run::fence`] is.
    pub fn fence(&self) -> i64 {
        self.run.fence()
    }

    /// The server that holds the lock: this one.
    pub fn server(&self) -> &str {
        self.run.server()
    }

    /// Whether the lock is lost, or in doubt. Needs no round trip to the store.
    ///
    /// `true` is final, except after the machine was suspended: then it is `true` until the store confirms the lock.
    pub fn is_lost(&self) -> bool {
        !self.validity.is_certain()
    }

    pub(super) fn is_over(&self) -> bool {
        self.validity.is_lost()
    }

    /// Waits until the lock is lost.
    pub async fn lost(&self) {
        self.validity.lost().await;
    }

    /// Asks the store whether the lock is still held, and extends it.
    ///
    /// After an error of the [store](LockError::Store) the lock is held as before, until [`is_lost`](Guard::is_lost).
    pub async fn confirm(&self) -> Result<(), LockError> {
        self.command(|reply| KeeperCommand::Extend { ttl: None, reply }).await
    }

    /// Extends the lock by this ttl, now and at every later extension. With
    /// [`keep_alive(false)`](crate::locks::Lock::keep_alive) only this extends the lock.
    pub async fn extend(&self, ttl: impl IntoDuration) -> Result<(), LockError> {
        let ttl = Some(check_duration(LockDuration::Ttl, ttl.into_duration())?);
        self.command(|reply| KeeperCommand::Extend { ttl, reply }).await
    }

    /// Releases the lock and waits for the store to confirm. Fails with [`Lost`](LockError::Lost) if the lock was lost
    /// before. While the store is unreachable it retries for a ttl; after that the lock has expired.
    pub async fn release(self) -> Result<(), LockError> {
        self.end(RunOutcome::Succeeded).await
    }

    /// Releases the lock with this outcome, and waits for the store to confirm.
    pub(super) async fn end(&self, outcome: RunOutcome) -> Result<(), LockError> {
        self.end_with(self.ending(outcome)).await
    }

    pub(super) async fn end_with(&self, ending: Ending) -> Result<(), LockError> {
        self.command(|reply| KeeperCommand::Release { ending, reply: Some(reply) }).await
    }

    async fn command(&self, command: impl FnOnce(CommandReply) -> KeeperCommand) -> Result<(), LockError> {
        let (reply, result) = oneshot::channel();
        // If the keeper has ended, the reply is dropped with the command.
        drop(self.commands.send(command(reply)));
        result.await.unwrap_or_else(|_| Err(LockError::shut_down(self.key())))
    }

    /// Reports the lock as lost from now on, and does not extend it any more.
    pub(super) fn step_down(&self) {
        drop(self.commands.send(KeeperCommand::StepDown)); // if the keeper has ended, the lock is lost
    }

    pub(super) fn ending(&self, outcome: RunOutcome) -> Ending {
        Ending { finish_called: self.run.finish_called(), ..Ending::of(outcome, self.remember) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let outcome = match std::thread::panicking() {
            true => RunOutcome::Panicked,
            false if self.stopped.is_raised() => RunOutcome::Cancelled,
            false if self.validity.is_lost() => RunOutcome::LeaseLost,
            // The code was dropped before its end, which reports its own outcome.
            false if self.released_by == ReleasedBy::Crate => RunOutcome::Cancelled,
            false => RunOutcome::Succeeded,
        };
        // Never blocks. If the keeper has ended, the lock was released, or expires after its ttl.
        drop(self.commands.send(KeeperCommand::Release { ending: self.ending(outcome), reply: None }));
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key())
            .field("fence", &self.fence())
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}
