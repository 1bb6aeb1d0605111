//! A lock while it is held: kept alive on the scheduler's thread, until its guard says otherwise.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::LockError;
use super::acquire::Ask;
use super::guard::Guard;
use super::held_here::Counted;
use crate::fleet::LeaseKind;
use crate::history::RunOutcome;
use crate::job::run::{Home, Run};
use crate::lease::validity::Proof;
use crate::lease::{Extended, HeldLease};
use crate::observe::event::EventKind;
use crate::server::Server;
use crate::store::Ending;
use crate::util::watched::Flag;

/// What a guard wants done. If it goes without a word, the lock is released.
pub(super) enum Order {
    /// Confirm the lease now, from now on with this ttl.
    Extend {
        ttl: Option<Duration>,
        done: Reply,
    },
    /// The lock is as good as lost to its holder, by its own will.
    StepDown,
    Release {
        ending: Ending,
        done: Option<Reply>,
    },
}

pub(super) type Reply = oneshot::Sender<Result<(), LockError>>;

/// The scheduler's end of a [`Guard`].
pub(super) struct Holding {
    server: Arc<Server>,
    key: String,
    kind: LeaseKind,
    lease: HeldLease,
    run: Run,
    /// See [`Ask::scoped`].
    scoped: bool,
    stopped: Arc<Flag>,
    orders: mpsc::UnboundedReceiver<Order>,
    told_lost: bool,
    /// Until it is lost: from then on a shutdown has nothing to wait for.
    shutdown_waits: Option<(Counted, TaskTrackerToken)>,
    _lost_at_the_end: LostAtTheEnd,
}

enum Happened {
    Ordered(Option<Order>),
    /// The shutdown's grace is over.
    Shutdown,
}

impl Holding {
    pub(super) fn begin(ask: &Ask, lease: HeldLease) -> (Guard, Self) {
        let server = ask.options.server.clone();
        let key = ask.options.key.clone();
        let run = Run::new(Home::new(&key, &server), lease.run_ref());
        let (orders, received) = mpsc::unbounded_channel();
        let stopped = Arc::<Flag>::default();
        let (proof, remember) = (lease.proof().clone(), server.remember);
        let guard = Guard::new(run.clone(), proof.clone(), stopped.clone(), orders, remember, ask.scoped);
        let holding = Self {
            shutdown_waits: Some((Counted::new(&server, &key), server.ticks.token())),
            _lost_at_the_end: LostAtTheEnd(proof, run.clone()),
            kind: ask.what.kind(),
            scoped: ask.scoped,
            orders: received,
            told_lost: false,
            server,
            key,
            lease,
            run,
            stopped,
        };
        (guard, holding)
    }

    /// Keeps the lock alive until it is released, or lost and let go.
    pub(super) async fn keep(mut self) {
        let (ending, done) = loop {
            match self.happens().await {
                Some(Happened::Ordered(Some(Order::Extend { ttl, done }))) => {
                    let result = self.extend(ttl).await;
                    drop(done.send(result)); // who asked may be gone
                }
                Some(Happened::Ordered(Some(Order::StepDown))) => {
                    self.told_lost = true;
                    self.lease.proof().lose();
                }
                Some(Happened::Ordered(Some(Order::Release { ending, done }))) => break (ending, done),
                Some(Happened::Ordered(None)) => {
                    break (Ending::of(RunOutcome::Succeeded, self.server.remember), None);
                }
                // Its code is dropped now. Until it is gone nobody else is let in.
                Some(Happened::Shutdown) if self.scoped => {
                    self.stopped.raise();
                    self.run.cancel();
                }
                // Its code may still run, so it is not released either.
                Some(Happened::Shutdown) if self.shutdown_waits.is_none() => return,
                Some(Happened::Shutdown) => {
                    let key = &self.key;
                    return tracing::warn!(
                        target: "jobs", key, server = &*self.server.id,
                        "[{key}] the lock is still held at the end of the shutdown: its holder is told, and it expires by \
                         itself"
                    );
                }
                None => self.lost(),
            }
        };
        let was_held = !self.lease.proof().is_lost();
        // Whoever still relies on it is told before the store lets anybody else in.
        self.lease.proof().lose();
        self.run.cancel();
        let result = self.lease.let_go(&self.server, Some(&self.run), &ending).await;
        self.server.lines.freed(&self.key, matches!(self.kind, LeaseKind::Slot { .. }));
        let key = self.key;
        let result = match result {
            Ok(ended) if was_held && ended => Ok(()),
            Ok(_) => Err(LockError::Lost { key }),
            Err(error) => {
                tracing::warn!(target: "jobs", key, %error, "[{key}] the lock could not be released; it expires by itself");
                Err(LockError::Store { key, error })
            }
        };
        if let Some(done) = done {
            drop(done.send(result)); // who asked may be gone
        }
    }

    /// `None` if the lease was lost meanwhile.
    async fn happens(&mut self) -> Option<Happened> {
        let cancel_runs = &self.server.cancel_runs;
        let knows = self.stopped.is_raised();
        let orders = &mut self.orders;
        let next = async {
            tokio::select! {
                biased;
                order = orders.recv() => Happened::Ordered(order),
                () = cancel_runs.raised(), if !knows => Happened::Shutdown,
            }
        };
        if self.told_lost {
            return Some(next.await);
        }
        self.lease.keep_alive(&self.server, Some(&self.run), next).await
    }

    async fn extend(&mut self, ttl: Option<Duration>) -> Result<(), LockError> {
        if self.lease.proof().is_lost() {
            return Err(LockError::lost(&self.key));
        }
        if let Some(ttl) = ttl {
            self.lease.set_ttl(&self.server, ttl);
        }
        match self.lease.extend(&self.server).await {
            Ok(Extended::Kept { .. }) if !self.lease.proof().is_lost() => Ok(()),
            Ok(_) => {
                self.lost();
                Err(LockError::lost(&self.key))
            }
            Err(error) => Err(LockError::Store { key: self.key.clone(), error }),
        }
    }

    fn lost(&mut self) {
        self.told_lost = true;
        self.shutdown_waits = None;
        self.lease.proof().lose();
        self.run.cancel();
        self.server.tell_of(&self.key, EventKind::LockLost { fence: self.run.fence() });
    }
}

/// Whatever ends the keeping of a lock, its holder is told.
struct LostAtTheEnd(Arc<Proof>, Run);

impl Drop for LostAtTheEnd {
    fn drop(&mut self) {
        self.0.lose();
        self.1.cancel();
    }
}
