//! A lock that is held.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::LockError;
use super::acquire::options::check_ttl;
use super::hold::{Order, Reply};
use crate::Run;
use crate::history::RunOutcome;
use crate::lease::validity::Validity;
use crate::store::Ending;
use crate::util::duration::IntoDuration;
use crate::util::watched::Flag;

/// A lock, or a slot of a [semaphore](crate::locks::Semaphore), that is held. It is kept alive on the scheduler's own thread,
/// so that code that blocks the application's runtime does not lose it.
///
/// Dropping it releases the lock in the background: the store is told a moment later. If the process ends before, or the
/// scheduler has, the lock expires by itself. [`release`](Guard::release) waits, and says whether the lock was held
/// until then.
///
/// A lock can be lost: the store was away for too long, this process was suspended, an operator
/// [broke](crate::Jobs::break_lock) it, the scheduler was shut down. The holder is told before the store lets anybody
/// else in, and should stop: [`Lock::run`](crate::locks::Lock::run) does that by itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://guard").start_all().await?;
/// let guard = jobs.lock("payment:123").ttl("10s").acquire().await?;
/// tokio::select! {
///     () = guard.lost() => println!("somebody else may have it now"),
///     () = async { /* write, with guard.fence() */ } => guard.release().await?,
/// }
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "dropping this guard releases the lock; keep it for as long as the lock is needed"]
pub struct Guard {
    run: Run,
    validity: Arc<Validity>,
    stopped: Arc<Flag>,
    orders: mpsc::UnboundedSender<Order>,
    remember: usize,
    /// Held by code that ends with it.
    scoped: bool,
}

impl Guard {
    pub(super) fn new(
        run: Run,
        validity: Arc<Validity>,
        stopped: Arc<Flag>,
        orders: mpsc::UnboundedSender<Order>,
        remember: usize,
        scoped: bool,
    ) -> Self {
        Self { run, validity, stopped, orders, remember, scoped }
    }

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

    /// Whether the lock cannot be relied on. Costs no trip to the store.
    ///
    /// This is final, but for a machine that was suspended: there it is `true` until the store has confirmed the lock.
    pub fn is_lost(&self) -> bool {
        !self.validity.is_certain()
    }

    pub(super) fn is_over(&self) -> bool {
        self.validity.is_lost()
    }

    /// Waits until the lock cannot be relied on any more.
    pub async fn lost(&self) {
        self.validity.lost().await;
    }

    /// Asks the store whether the lock is still held, and extends it.
    ///
    /// After an error of the [store](LockError::Store) its last word still counts, until [`is_lost`](Guard::is_lost).
    pub async fn confirm(&self) -> Result<(), LockError> {
        self.order(|done| Order::Extend { ttl: None, done }).await
    }

    /// The same with another ttl, for this extension and those that follow. With
    /// [`keep_alive(false)`](crate::locks::Lock::keep_alive) this is how the lock lasts longer.
    pub async fn extend(&self, ttl: impl IntoDuration) -> Result<(), LockError> {
        let ttl = Some(check_ttl(ttl.into_duration())?);
        self.order(|done| Order::Extend { ttl, done }).await
    }

    /// Releases the lock, and returns when the store has confirmed it; or an error if it was
    /// [lost](LockError::Lost) before. A store that is away is tried for a ttl: then the lock has expired.
    pub async fn release(self) -> Result<(), LockError> {
        self.end(Ending::of(RunOutcome::Succeeded, self.remember)).await
    }

    pub(super) async fn end(&self, ending: Ending) -> Result<(), LockError> {
        self.order(|done| Order::Release { ending, done: Some(done) }).await
    }

    async fn order(&self, order: impl FnOnce(Reply) -> Order) -> Result<(), LockError> {
        let (done, result) = oneshot::channel();
        // If nobody takes orders any more, the reply is dropped with the order.
        drop(self.orders.send(order(done)));
        result.await.unwrap_or_else(|_| Err(LockError::ended(self.key())))
    }

    /// As good as lost from now on, and not extended any more.
    pub(super) fn step_down(&self) {
        drop(self.orders.send(Order::StepDown)); // nobody there: it is lost already
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    pub(super) fn validity(&self) -> &Validity {
        &self.validity
    }

    pub(super) fn stopped(&self) -> &Flag {
        &self.stopped
    }

    pub(super) fn ending(&self, outcome: RunOutcome) -> Ending {
        Ending::of(outcome, self.remember)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let outcome = match std::thread::panicking() {
            true => RunOutcome::Panicked,
            false if self.stopped.is_raised() => RunOutcome::Cancelled,
            false if self.validity.is_lost() => RunOutcome::LeaseLost,
            // Its code did not come to its end: then it would have said how that was.
            false if self.scoped => RunOutcome::Cancelled,
            false => RunOutcome::Succeeded,
        };
        // Never waits. If nobody takes orders any more, the lock was released, or expires by itself.
        drop(self.orders.send(Order::Release { ending: self.ending(outcome), done: None }));
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
