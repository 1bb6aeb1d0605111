//! A lock that several callers hold at once.

use std::time::Duration;

use super::acquire::default_server::WeakServer;
use super::acquire::options::{LockOptions, invalid};
use super::acquire::{LockRequest, ReleasedBy};
use super::guard::Guard;
use super::run_locked::acquire_and_run;
use super::{LockError, LockOperation};
use crate::Run;
use crate::fleet::{HeldLock, LeaseKind};
use crate::server::error::OperateError;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;

/// A number of slots that all servers share: for example, for calls to a service that allows five at a time.
///
/// Each slot is a lock with its own lease and [`Guard`], and callers wait for it as for a
/// [`Lock`](crate::locks::Lock#waiting). The slots of a key are independent of the lock with the same key. Use the same
/// number on all servers: each server counts the slots that are held, and takes one if they are fewer than its own number.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://semaphore").start_all().await?;
/// let slots = jobs.semaphore("external-api", 2).ttl("10s");
/// let (one, two) = (slots.clone().acquire().await?, slots.clone().acquire().await?);
/// assert!(slots.clone().try_acquire().await?.is_none());
/// assert_eq!(slots.holders().await?.len(), 2);
/// one.release().await?;
/// slots.run(|_| async { /* call the service */ }).await?;
/// # drop(two);
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "nothing is held before `run`, `acquire` or `try_acquire`"]
#[derive(Clone, Debug)]
pub struct Semaphore {
    options: LockOptions,
    permits: u32,
}

impl Semaphore {
    pub(super) fn new(server: Option<WeakServer>, key: impl Into<String>, permits: u32) -> Self {
        Self { options: LockOptions::new(server, key.into()), permits }
    }

    /// How long a slot lasts if its holder dies: `"10s"` or a [`Duration`], from 1 s to 7 days. 30 s by default.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long [`acquire`](Semaphore::acquire) and [`run`](Semaphore::run) wait for a slot: `"5s"` or a [`Duration`].
    /// `"0s"` does not wait. Without a limit by default.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the slot is extended while it is held; see [`Lock::keep_alive`](crate::locks::Lock::keep_alive).
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Acquires a slot if one is free. Does not wait.
    pub async fn try_acquire(mut self) -> Result<Option<Guard>, LockError> {
        self.options.wait(Duration::ZERO);
        self.request(ReleasedBy::Caller)?.try_acquire_guard().await
    }

    /// Waits until a slot is free, and acquires it. The future can be dropped at any point.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        self.request(ReleasedBy::Caller)?.acquire_guard().await
    }

    /// Acquires a slot, runs the code on this task while the slot is held, and releases the slot, as
    /// [`Lock::run`](crate::locks::Lock::run) does.
    pub async fn run<T, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        acquire_and_run(self.request(ReleasedBy::Crate)?, code).await
    }

    /// Lists the holders of slots on all servers, for people: the list may be out of date when it arrives, and on Redis
    /// it takes a scan of the database.
    pub async fn holders(&self) -> Result<Vec<HeldLock>, LockError> {
        let what = ClaimPurpose::Slot(self.permits);
        let LockRequest { server, key, .. } = self.options.request(what, ReleasedBy::Caller)?;
        let held = super::list(&server).await;
        let held = held.map_err(|error| match error {
            OperateError::Store(error) => LockError::store(LockOperation::List, &key, error),
            _ => LockError::shut_down(&key),
        })?;
        let is_slot = |held: &HeldLock| held.key == key && matches!(held.kind, Some(LeaseKind::Slot { .. }));
        Ok(held.into_iter().filter(is_slot).collect())
    }

    fn request(&self, released_by: ReleasedBy) -> Result<LockRequest, LockError> {
        if self.permits == 0 {
            let key = &self.options.key;
            return Err(invalid(format!("invalid semaphore \"{key}\": it has no slots; give it at least 1")));
        }
        self.options.request(ClaimPurpose::Slot(self.permits), released_by)
    }
}
