//! The messages of servers to a store, one at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::fleet::{Forgotten, HeldLock, ServerInfo};
use crate::history::{CurrentRun, History};
use crate::lease::store_clock::StoreClock;
use crate::store::{
    Cached, Claim, ClaimReply, Ending, ExtendReply, Lease, Note, Observe, Outstanding, ReleaseReply,
    Requested, Requests, Store, StoreError, Turns, Verdict,
};
use crate::util::clock::SystemClock;

/// A reply, and the store's time at which it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped<T> {
    /// The store's clock.
    pub at: Timestamp,
    /// The reply.
    pub reply: T,
}

/// Sends the messages of a server to a store as a server does: look, decide, swap.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    time: StoreClock,
    turns: Turns,
    within: Duration,
}

/// Nothing is learned of the store's health.
struct Unobserved;

impl Observe for Unobserved {
    fn answered(&self, _step: &'static str) {}
    fn failed(&self, _step: &'static str, _error: &StoreError) {}
}

type Answered<T> = Result<Stamped<T>, StoreError>;

impl Client {
    /// A client that waits up to 5 s for each answer.
    pub fn new(store: impl Store) -> Self {
        Self::of(Arc::new(store))
    }

    /// The same for a store that is shared.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self::within(store, Duration::from_secs(5))
    }

    /// The same with another response timeout.
    pub(super) fn within(store: Arc<dyn Store>, within: Duration) -> Self {
        let time = StoreClock::new(Arc::new(SystemClock));
        Self(Arc::new(Inner { store, time, turns: Turns::default(), within }))
    }

    /// The store itself.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    fn requests(&self) -> Requests<'_> {
        let Inner { store, time, turns, within } = &*self.0;
        Requests { store: &**store, time, turns, observe: &Unobserved, within: *within }
    }

    /// What the estimate of the store's time is after an answer.
    fn stamped<T>(&self, reply: T) -> Stamped<T> {
        Stamped { at: self.0.time.now(), reply }
    }

    /// The store's time.
    pub async fn ping(&self) -> Answered<()> {
        Ok(Stamped { at: self.requests().ping().await?, reply: () })
    }

    /// Claims a key, with a look first.
    pub async fn claim(&self, key: &str, claim: &Claim) -> Answered<Verdict> {
        let answer =
            self.requests().claim(key, claim, false, &mut Outstanding::of(claim.token.clone())).await?;
        Ok(Stamped { at: answer.now, reply: answer.reply })
    }

    /// Claims a key as a server does with a claim's first question: of a manual lock, without a look.
    pub async fn claim_first(&self, key: &str, claim: &Claim) -> Answered<Verdict> {
        let answer =
            self.requests().claim(key, claim, true, &mut Outstanding::of(claim.token.clone())).await?;
        Ok(Stamped { at: answer.now, reply: answer.reply })
    }

    /// Claims a key and keeps what was written, so that extension and release need no look; `None` if it was refused.
    pub async fn acquire(&self, key: &str, claim: &Claim) -> Result<Option<Acquired>, StoreError> {
        let answer =
            self.requests().claim(key, claim, true, &mut Outstanding::of(claim.token.clone())).await?;
        let ClaimReply::Won(won) = &answer.reply.decision else { return Ok(None) };
        let lease = won.lease.clone();
        Ok(Some(Acquired { client: self.clone(), key: key.to_owned(), lease, written: answer.written }))
    }

    /// Extends a lease, with a look first.
    pub async fn extend(&self, key: &str, lease: &Lease) -> Answered<ExtendReply> {
        let answer = self.requests().extend(key, lease, None).await?;
        Ok(Stamped { at: answer.now, reply: answer.reply })
    }

    /// Ends a lease, with a look first.
    pub async fn release(&self, key: &str, lease: &Lease, end: &Ending) -> Answered<ReleaseReply> {
        let answer = self.requests().release(key, lease, end, None).await?;
        Ok(Stamped { at: answer.now, reply: answer.reply })
    }

    /// Frees a key and its slots.
    pub async fn break_lock(&self, key: &str, remember: usize) -> Answered<Vec<HeldLock>> {
        let reply = self.requests().break_lock(key, &"client".into(), remember).await?;
        Ok(self.stamped(reply))
    }

    /// Asks the server that runs a job to cancel the run.
    pub async fn cancel(&self, key: &str) -> Answered<Option<CurrentRun>> {
        let reply = self.requests().cancel(key, &"client".into()).await?;
        Ok(self.stamped(reply))
    }

    /// The locks and slots that are held.
    pub async fn locks(&self) -> Answered<Vec<HeldLock>> {
        let reply = self.requests().locks().await?;
        Ok(self.stamped(reply))
    }

    /// Pauses or resumes a job.
    pub async fn set_paused(&self, key: &str, paused: bool) -> Answered<()> {
        self.requests().set_paused(key, paused).await?;
        Ok(self.stamped(()))
    }

    /// Takes back a mark from the future.
    pub async fn reset(&self, key: &str) -> Answered<()> {
        self.requests().reset(key).await?;
        Ok(self.stamped(()))
    }

    /// Removes an unused job.
    pub async fn forget(&self, key: &str, quiet: Duration) -> Answered<Forgotten> {
        let reply = self.requests().forget(key, quiet).await?;
        Ok(self.stamped(reply))
    }

    /// Asks for a manual run.
    pub async fn request(&self, key: &str, id: &str, by: &str, ttl: Duration) -> Answered<Requested> {
        let reply = self.requests().request(key, id, by, ttl).await?;
        Ok(self.stamped(reply))
    }

    /// What is known of a job.
    pub async fn history(&self, key: &str) -> Answered<History> {
        let (reply, at) = self.requests().history(key).await?;
        Ok(Stamped { at, reply })
    }

    /// Announces a server.
    pub async fn announce(&self, server: &str, about: &str, ttl: Duration) -> Answered<Vec<Note>> {
        let reply = self.requests().announce(server, about.into(), ttl).await?;
        Ok(self.stamped(reply))
    }

    /// A server is gone.
    pub async fn leave(&self, server: &str) -> Answered<()> {
        self.requests().leave(server).await?;
        Ok(self.stamped(()))
    }

    /// The servers that are alive.
    pub async fn servers(&self) -> Answered<Vec<ServerInfo>> {
        let reply = self.requests().servers().await?;
        Ok(self.stamped(reply))
    }
}

/// A lease that a [`Client`] has acquired.
pub struct Acquired {
    client: Client,
    key: String,
    /// The lease.
    pub lease: Lease,
    written: Option<Cached>,
}

impl Acquired {
    /// Extends the lease; in one round trip if nothing has changed.
    pub async fn extend(&mut self) -> Result<ExtendReply, StoreError> {
        let cached = self.written.take();
        let answer = self.client.requests().extend(&self.key, &self.lease, cached.as_ref()).await?;
        self.written = answer.written;
        Ok(answer.reply)
    }

    /// Ends the lease; in one round trip if nothing has changed.
    pub async fn release(self, end: &Ending) -> Result<ReleaseReply, StoreError> {
        let requests = self.client.requests();
        Ok(requests.release(&self.key, &self.lease, end, self.written.as_ref()).await?.reply)
    }
}
