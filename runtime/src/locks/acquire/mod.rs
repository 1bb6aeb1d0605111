//! From wanting a lock to holding it.
//!
//! All of it happens on the scheduler's thread, where the store's connection lives. The caller only waits for the
//! answer: if it is dropped, whatever was won, or may have been, is given back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::LockError;
use super::guard::Guard;
use super::hold::Holding;
use crate::Timestamp;
use crate::fleet::Holder;
use crate::lease::{HeldLease, PendingClaim};
use crate::server::NeverSilently;
use crate::store::{Claim, ClaimPurpose};
use crate::util::token::token;
use claiming::Claiming;
use line::Line;
use options::Checked;

pub(crate) mod at_hand;
pub(crate) mod claiming;
pub(crate) mod line;
pub(crate) mod options;
pub(crate) mod pause;

/// What is wanted.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(super) options: Checked,
    pub(super) what: ClaimPurpose,
    /// The code that needs the lock is run, and dropped, by this crate.
    pub(super) scoped: bool,
}

/// What came of it.
pub(super) enum Decision<T> {
    Won(T),
    /// The work was done already.
    Done(Timestamp),
    /// Somebody held it until the wait was over.
    Held {
        holder: Holder,
        waited: Duration,
    },
}

/// Why nothing was decided.
pub(super) enum Stop {
    /// Nobody waits for the answer any more.
    Gone,
    Because(LockError),
}

impl Ask {
    /// Acquires the lock, for a caller on any runtime.
    pub(super) async fn acquire(self) -> Result<Decision<Guard>, LockError> {
        let (mut answer, decided) = oneshot::channel();
        let (server, key) = (self.options.server.clone(), self.options.key.clone());
        drop(server.host.clone().spawn(async move {
            let _loud = NeverSilently(server);
            let decision = match self.decide(answer.closed(), |_| {}).await {
                Ok(Decision::Won(lease)) => {
                    let (guard, holding) = Holding::begin(&self, lease);
                    // If the caller is gone the guard comes back and is dropped, which releases the lock.
                    drop(answer.send(Ok(Decision::Won(guard))));
                    return holding.keep().await;
                }
                Ok(Decision::Done(at)) => Ok(Decision::Done(at)),
                Ok(Decision::Held { holder, waited }) => Ok(Decision::Held { holder, waited }),
                Err(Stop::Gone) => return,
                Err(Stop::Because(error)) => Err(error),
            };
            drop(answer.send(decision));
        }));
        decided.await.unwrap_or(Err(LockError::Ended { key }))
    }

    /// The same, where a lock that is held is an error.
    pub(super) async fn acquire_or_fail(self) -> Result<Guard, LockError> {
        let key = self.options.key.clone();
        match self.acquire().await? {
            Decision::Won(guard) => Ok(guard),
            Decision::Held { holder, waited } => Err(LockError::Held { key, waited, holder }),
            // Only work that is done once can be done.
            Decision::Done(_) => Err(LockError::Lost { key }),
        }
    }

    /// The same, where a lock that is held is none.
    pub(super) async fn acquire_if_free(self) -> Result<Option<Guard>, LockError> {
        match self.acquire().await? {
            Decision::Won(guard) => Ok(Some(guard)),
            Decision::Held { .. } | Decision::Done(_) => Ok(None),
        }
    }

    /// Asks until there is a decision, or until nobody waits for it.
    pub(super) async fn decide(
        &self,
        gone: impl Future<Output = ()>,
        on_held: impl Fn(&Holder),
    ) -> Result<Decision<HeldLease>, Stop> {
        let Checked { server, key, wait, .. } = &self.options;
        if server.cancel_runs.is_raised() {
            return Err(Stop::Because(LockError::ended(key)));
        }
        let mut gone = pin!(gone);
        let patience = Patience::new(*wait);
        // A campaign asks by itself, because it wants to know who leads.
        let place = match self.what {
            ClaimPurpose::Leader => None,
            ClaimPurpose::Slot(_) => Some(server.lines.join(key, true)),
            _ => Some(server.lines.join(key, false)),
        };
        let own_line = Arc::<Line>::default();
        let line = place.as_ref().map_or(&own_line, |place| &place.line);
        let ear = if *wait == Some(Duration::ZERO) {
            None
        } else {
            tokio::select! {
                biased;
                ear = line.first.lock() => Some(ear),
                () = gone.as_mut() => return Err(Stop::Gone),
                () = server.cancel_runs.raised() => return Err(Stop::Because(LockError::ended(key))),
                () = tokio::time::sleep_until(patience.ends) => match line.holder() {
                    Some(holder) => return Ok(Decision::Held { holder, waited: patience.begun.elapsed() }),
                    None => None,
                },
            }
        };
        Claiming::new(self, patience, line, ear).go(gone, on_held).await
    }

    /// A claim with a token of its own.
    pub(super) fn pending(&self) -> PendingClaim {
        let Checked { server, key, ttl, keep_alive, .. } = &self.options;
        let claim = Claim {
            token: token(),
            server: server.id.clone(),
            ttl: *ttl,
            what: self.what.clone(),
            remember: server.remember,
        };
        PendingClaim::new(server, key.as_str(), *keep_alive, claim)
    }
}

/// How long a caller waits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) begun: Instant,
    pub(super) ends: Instant,
}

/// Longer than any process lives.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

impl Patience {
    fn new(wait: Option<Duration>) -> Self {
        let begun = Instant::now();
        Self { begun, ends: begun + wait.unwrap_or(FOR_EVER).min(FOR_EVER) }
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.ends
    }
}
