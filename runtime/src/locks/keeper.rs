//! The task that keeps a lock alive on the server's thread, and releases it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::acquire::{LockRequest, ReleasedBy};
use super::guard::Guard;
use super::held_keys::HeldKey;
use super::{LockError, LockOperation};
use crate::fleet::LeaseKind;
use crate::history::RunOutcome;
use crate::job::run::{Run, RunContext};
use crate::lease::HeldLease;
use crate::lease::validity::Validity;
use crate::observe::event::EventKind;
use crate::server::Server;
use crate::store::{Ending, ExtendReply};
use crate::util::watched::Flag;

/// A command from a guard to its keeper. If the guard's channel closes, the lock is released.
pub(super) enum KeeperCommand {
    /// Extend the lease now; from now on with this ttl, if there is one.
    Extend {
        ttl: Option<Duration>,
        reply: CommandReply,
    },
    /// Stop extending the lease, and report the lock as lost.
    StepDown,
    Release {
        ending: Ending,
        reply: Option<CommandReply>,
    },
}

pub(super) type CommandReply = oneshot::Sender<Result<(), LockError>>;

/// Keeps the lock of a [`Guard`] alive.
pub(super) struct LockKeeper {
    server: Arc<Server>,
    key: String,
    kind: LeaseKind,
    lease: HeldLease,
    run: Run,
    released_by: ReleasedBy,
    /// Raised when the code under the lock must stop, because the shutdown's grace is over.
    stopped: Arc<Flag>,
    commands: mpsc::UnboundedReceiver<KeeperCommand>,
    /// The holder knows that the lock is lost, so it is not extended any more.
    is_lost: bool,
    /// Makes a shutdown wait. `None` once the lock is lost.
    shutdown_hold: Option<(HeldKey, TaskTrackerToken)>,
    _lose_on_drop: LoseOnDrop,
}

enum KeeperEvent {
    /// `None` if the guard is gone.
    Command(Option<KeeperCommand>),
    /// The grace of a shutdown is over.
    GraceOver,
    LeaseLost,
}

impl LockKeeper {
    pub(super) fn new(request: &LockRequest, lease: HeldLease) -> (Guard, Self) {
        let LockRequest { server, key, what, released_by, .. } = request;
        let run = Run::new(RunContext::new(key, server), &lease);
        let (sender, commands) = mpsc::unbounded_channel();
        let guard = Guard {
            run: run.clone(),
            validity: lease.validity().clone(),
            stopped: Arc::default(),
            commands: sender,
            remember: server.history_limit,
            released_by: *released_by,
        };
        let keeper = Self {
            shutdown_hold: Some((HeldKey::add(server, key), server.tracked.token())),
            _lose_on_drop: LoseOnDrop { validity: lease.validity().clone(), run: run.clone() },
            server: server.clone(),
            key: key.clone(),
            kind: what.kind(),
            lease,
            run,
            released_by: *released_by,
            stopped: guard.stopped.clone(),
            commands,
            is_lost: false,
        };
        (guard, keeper)
    }

    /// Keeps the lock alive until the guard releases it, or is dropped.
    pub(super) async fn run(mut self) {
        let (ending, reply) = loop {
            match self.next_event().await {
                KeeperEvent::Command(Some(KeeperCommand::Extend { ttl, reply })) => {
                    let result = self.extend(ttl).await;
                    drop(reply.send(result)); // the caller may be gone
                }
                KeeperEvent::Command(Some(KeeperCommand::StepDown)) => {
                    self.is_lost = true;
                    self.lease.validity().lose();
                }
                KeeperEvent::Command(Some(KeeperCommand::Release { ending, reply })) => {
                    break (ending, reply);
                }
                KeeperEvent::Command(None) => {
                    break (Ending::of(RunOutcome::Succeeded, self.server.history_limit), None);
                }
                // The code is dropped now. The lock is released when it is gone.
                KeeperEvent::GraceOver if self.released_by == ReleasedBy::Crate => {
                    self.stopped.raise();
                    self.run.cancel();
                }
                KeeperEvent::GraceOver if self.shutdown_hold.is_none() => return,
                // The caller's code may still run, so the lock is not released.
                KeeperEvent::GraceOver => {
                    let key = &self.key;
                    return tracing::warn!(
                        target: "jobs", key, server = &*self.server.id,
                        "[{key}] lock is still held after the shutdown's grace; its guard reports it as lost, and it \
                         expires after its ttl"
                    );
                }
                KeeperEvent::LeaseLost => self.lose(),
            }
        };
        self.release(&ending, reply).await;
    }

    async fn release(self, ending: &Ending, reply: Option<CommandReply>) {
        let was_held = !self.lease.validity().is_lost();
        // Every user of the lock sees that it is lost before the store grants it to another server.
        self.lease.validity().lose();
        self.run.cancel();
        let released = self.lease.release_lock(&self.server, Some(&self.run), ending).await;
        self.server.wait_queues.wake(&self.key, self.kind);
        let key = self.key;
        let result = match released {
            Ok(ended) if was_held && ended => Ok(()),
            Ok(_) => Err(LockError::Lost { key }),
            Err(error) => {
                let error = LockError::Store { key: key.clone(), operation: LockOperation::Release, error };
                tracing::warn!(target: "jobs", key, %error, "[{key}] {error}; the lock expires after its ttl");
                Err(error)
            }
        };
        if let Some(reply) = reply {
            drop(reply.send(result)); // the caller may be gone
        }
    }

    async fn next_event(&mut self) -> KeeperEvent {
        let cancel_runs = &self.server.cancel_runs;
        let is_stopped = self.stopped.is_raised();
        let commands = &mut self.commands;
        let event = async {
            tokio::select! {
                biased;
                command = commands.recv() => KeeperEvent::Command(command),
                () = cancel_runs.raised(), if !is_stopped => KeeperEvent::GraceOver,
            }
        };
        if self.is_lost {
            return event.await;
        }
        let event = self.lease.keep_alive(&self.server, Some(&self.run), event).await;
        event.unwrap_or(KeeperEvent::LeaseLost)
    }

    async fn extend(&mut self, ttl: Option<Duration>) -> Result<(), LockError> {
        if self.lease.validity().is_lost() {
            return Err(LockError::lost(&self.key));
        }
        if let Some(ttl) = ttl {
            self.lease.set_ttl(&self.server, ttl);
        }
        match self.lease.extend(&self.server).await {
            Ok(ExtendReply::Kept { .. } | ExtendReply::Restored(_)) if !self.lease.validity().is_lost() => {
                Ok(())
            }
            Ok(_) => {
                self.lose();
                Err(LockError::lost(&self.key))
            }
            Err(error) => Err(LockError::store(LockOperation::Extend, &self.key, error)),
        }
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.shutdown_hold = None;
        self.lease.validity().lose();
        self.run.cancel();
        self.server.emit_for_key(&self.key, EventKind::LockLost { fence: self.run.fence() });
    }
}

/// Reports the lock as lost however the keeper ends.
struct LoseOnDrop {
    validity: Arc<Validity>,
    run: Run,
}

impl Drop for LoseOnDrop {
    fn drop(&mut self) {
        self.validity.lose();
        self.run.cancel();
    }
}
