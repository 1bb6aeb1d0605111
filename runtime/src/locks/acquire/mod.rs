//! Acquiring a lock.
//!
//! All of it happens on the server's own thread, where the connection to the store is. The caller waits for the result.
//! If the caller is dropped, the lock is released if it was acquired, or may have been.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::guard::Guard;
use super::keeper::LockKeeper;
use super::{LockError, LockOperation};
use crate::Timestamp;
use crate::fleet::Holder;
use crate::lease::{HeldLease, PendingClaim};
use crate::server::{FailOnPanic, Server};
use crate::store::{Claim, ClaimPurpose, RunDetails, StoreError, StoreErrorKind};
use crate::util::token::token;
use acquisition::Acquisition;
use wait_queue::WaitQueue;

pub(crate) mod acquisition;
pub(crate) mod default_server;
pub(crate) mod options;
pub(crate) mod poll_interval;
pub(crate) mod wait_queue;

/// A request for a lock, with options that were checked.
#[derive(Clone)]
pub(crate) struct LockRequest {
    pub(crate) server: Arc<Server>,
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    /// `None` waits without a limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_alive: bool,
    pub(crate) what: ClaimPurpose,
    pub(crate) released_by: ReleasedBy,
}

/// Who ends the use of a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleasedBy {
    /// The caller, who drops or releases the guard.
    Caller,
    /// This crate, which polls the code under the lock and can drop it.
    Crate,
}

/// The result of an acquisition.
pub(super) enum AcquireOutcome<T> {
    Lock(T),
    /// The work was done before, at this instant.
    AlreadyDone(Timestamp),
    /// Another caller held the lock until the wait was over.
    Held {
        holder: Holder,
        waited: Duration,
    },
}

/// The reason why an acquisition has no result.
pub(super) enum AcquireError {
    /// The caller was dropped.
    CallerGone,
    Lock(LockError),
}

impl From<LockError> for AcquireError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl LockRequest {
    /// Acquires the lock, for a caller on any runtime.
    pub(super) async fn acquire(self) -> Result<AcquireOutcome<Guard>, LockError> {
        let (mut reply, result) = oneshot::channel();
        let (server, key) = (self.server.clone(), self.key.clone());
        drop(server.host.clone().spawn(async move {
            let _fail_on_panic = FailOnPanic(server);
            // Boxed, since a spawned future is copied several times.
            let acquired = match Box::pin(self.acquire_lease(reply.closed(), |_| {})).await {
                Ok(AcquireOutcome::Lock(lease)) => {
                    let (guard, keeper) = LockKeeper::new(&self, lease);
                    // If the caller is gone, the guard comes back and is dropped, which releases the lock.
                    drop(reply.send(Ok(AcquireOutcome::Lock(guard))));
                    return Box::pin(keeper.run()).await;
                }
                Ok(AcquireOutcome::AlreadyDone(at)) => Ok(AcquireOutcome::AlreadyDone(at)),
                Ok(AcquireOutcome::Held { holder, waited }) => Ok(AcquireOutcome::Held { holder, waited }),
                Err(AcquireError::CallerGone) => return,
                Err(AcquireError::Lock(error)) => Err(error),
            };
            drop(reply.send(acquired));
        }));
        result.await.unwrap_or(Err(LockError::ShutDown { key }))
    }

    /// Acquires the lock. A lock that is held is an error.
    pub(super) async fn acquire_guard(self) -> Result<Guard, LockError> {
        let request = self.clone();
        match self.acquire().await? {
            AcquireOutcome::Lock(guard) => Ok(guard),
            AcquireOutcome::Held { holder, waited } => {
                Err(LockError::Held { key: request.key, waited, holder })
            }
            AcquireOutcome::AlreadyDone(_) => Err(request.unexpected_reply()),
        }
    }

    /// Acquires the lock. A lock that is held is `None`.
    pub(super) async fn try_acquire_guard(self) -> Result<Option<Guard>, LockError> {
        let request = self.clone();
        match self.acquire().await? {
            AcquireOutcome::Lock(guard) => Ok(Some(guard)),
            AcquireOutcome::Held { .. } => Ok(None),
            AcquireOutcome::AlreadyDone(_) => Err(request.unexpected_reply()),
        }
    }

    /// Asks the store until it grants or refuses the lock, or until `caller_gone` resolves.
    pub(super) async fn acquire_lease(
        &self,
        caller_gone: impl Future<Output = ()>,
        on_held: impl Fn(&Holder),
    ) -> Result<AcquireOutcome<HeldLease>, AcquireError> {
        let Self { server, key, wait, .. } = self;
        if server.cancel_runs.is_raised() {
            return Err(LockError::shut_down(key).into());
        }
        let mut caller_gone = pin!(caller_gone);
        let limit = WaitLimit::new(*wait);
        // Each candidate asks by itself, because it reports who leads.
        let ticket = match self.what {
            ClaimPurpose::Leader => None,
            _ => Some(server.wait_queues.ticket(key, self.what.kind())),
        };
        let own_queue = Arc::<WaitQueue>::default();
        let queue = ticket.as_ref().map_or(&own_queue, |ticket| &ticket.queue);
        let first_place = if *wait == Some(Duration::ZERO) {
            None
        } else {
            tokio::select! {
                biased;
                first_place = queue.first.lock() => Some(first_place),
                () = caller_gone.as_mut() => return Err(AcquireError::CallerGone),
                () = server.cancel_runs.raised() => return Err(LockError::shut_down(key).into()),
                () = tokio::time::sleep_until(limit.deadline) => match queue.holder() {
                    Some(holder) => return Ok(AcquireOutcome::Held { holder, waited: limit.started.elapsed() }),
                    None => None,
                },
            }
        };
        Acquisition::new(self, limit, queue, first_place).run(caller_gone, on_held).await
    }

    /// A claim with a token of its own.
    pub(super) fn pending_claim(&self) -> PendingClaim {
        let Self { server, key, ttl, keep_alive, what, .. } = self;
        let claim = Claim {
            token: token(),
            server: server.id.clone(),
            ttl: *ttl,
            what: what.clone(),
            remember: server.history_limit,
            details: RunDetails::default(),
        };
        PendingClaim::new(server, key.as_str(), *keep_alive, claim)
    }

    /// An error that the store is at fault for.
    fn store_error(&self, kind: StoreErrorKind, cause: &str) -> LockError {
        let error = StoreError::new(kind, "claim", self.server.store.location(), cause);
        LockError::store(LockOperation::Acquire, &self.key, error)
    }

    /// Only work that is done once can be done already, and only a claim of its own kind gets such replies.
    fn unexpected_reply(&self) -> LockError {
        self.store_error(StoreErrorKind::Unreadable, "the reply does not fit the request for a lock")
    }
}

/// The time that a caller waits.
#[derive(Clone, Copy)]
pub(super) struct WaitLimit {
    pub(super) started: Instant,
    pub(super) deadline: Instant,
}

/// Longer than any process lives.
const UNLIMITED: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

impl WaitLimit {
    fn new(wait: Option<Duration>) -> Self {
        let started = Instant::now();
        Self { started, deadline: started + wait.unwrap_or(UNLIMITED).min(UNLIMITED) }
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.deadline
    }
}
