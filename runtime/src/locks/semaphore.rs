//! A lock that so many may hold at once.

use std::time::Duration;

use super::LockError;
use super::acquire::Ask;
use super::acquire::at_hand::Instance;
use super::acquire::options::{Options, invalid};
use super::guard::Guard;
use super::locked::body;
use crate::Run;
use crate::fleet::{HeldLock, LeaseKind};
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;

/// A number of slots, of which at most so many are held at once among all servers: for calls to a service that allows
/// only five at a time, say.
///
/// Each slot is a lock of its own, with its own lease and [`Guard`]. All that a [`Lock`](crate::locks::Lock) says about waiting
/// holds here, too. Slots have nothing to do with a lock of the same key. Servers should agree on the number: each
/// counts the slots that are held, and takes one if they are fewer than its own number.
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
    options: Options,
    permits: u32,
}

impl Semaphore {
    pub(super) fn new(instance: Option<Instance>, key: impl Into<String>, permits: u32) -> Self {
        Self { options: Options::new(instance, key.into()), permits }
    }

    /// How long a slot lasts if its holder dies, 30 s unless set and at least 1 s.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long [`acquire`](Semaphore::acquire) and [`run`](Semaphore::run) wait for a slot. For ever unless set; `"0s"`
    /// for not at all.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the slot is extended while it is held; see [`Lock::keep_alive`](crate::locks::Lock::keep_alive).
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Takes a slot if one is free.
    pub async fn try_acquire(mut self) -> Result<Option<Guard>, LockError> {
        self.options.wait(Duration::ZERO);
        self.ask(false)?.acquire_if_free().await
    }

    /// Waits until a slot is free, and takes it. Dropping the future leaves nothing behind.
    pub async fn acquire(self) -> Result<Guard, LockError> {
        self.ask(false)?.acquire_or_fail().await
    }

    /// Acquires a slot, runs the code on this task for as long as the slot is held, and releases it, as
    /// [`Lock::run`](crate::locks::Lock::run) does.
    pub async fn run<T, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        body::run(self.ask(true)?, code).await
    }

    /// Who holds slots, on all servers. For people: the answer may be out of date when it arrives, and on Redis it is
    /// found by a walk over the database.
    pub async fn holders(&self) -> Result<Vec<HeldLock>, LockError> {
        let options = self.options.check()?;
        let held = super::list(&options.server).await;
        let held = held.map_err(|error| LockError::Store { key: options.key.clone(), error })?;
        let is_ours =
            |held: &HeldLock| held.key == options.key && matches!(held.kind, Some(LeaseKind::Slot { .. }));
        Ok(held.into_iter().filter(is_ours).collect())
    }

    fn ask(&self, scoped: bool) -> Result<Ask, LockError> {
        if self.permits == 0 {
            let key = &self.options.key;
            return Err(invalid(format!(
                "the semaphore \"{key}\" has no slots; at least 1, or nobody could hold one"
            )));
        }
        Ok(Ask { options: self.options.check()?, what: ClaimPurpose::Slot(self.permits), scoped })
    }
}
