//! The messages of servers to a store, one at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::fleet::{Forgotten, HeldLock, ServerInfo};
use crate::history::{CurrentRun, History};
use crate::lease::store_clock::StoreClock;
use crate::store::{
    CachedRecord, Claim, ClaimDecision, ClaimReply, Ending, ExtendReply, KeyMutexes, Lease, Note, Pause,
    PauseOrder, REMEMBERED, ReleaseReply, RequestObserver, RunRequest, Store, StoreClient, StoreError,
    UnansweredSwaps,
};
use crate::util::clock::SystemClock;

/// A reply, and the store's time of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamped<T> {
    /// The store's clock.
    pub at: Timestamp,
    /// The reply.
    pub reply: T,
}

/// Sends the messages of a server to a store as a server does: look, decide, swap.
#[derive(Clone)]
pub struct Client(Arc<ClientParts>);

struct ClientParts {
    store: Arc<dyn Store>,
    time: StoreClock,
    semaphore_mutexes: KeyMutexes,
    within: Duration,
}

/// Ignores the health of the store.
struct NoObserver;

impl RequestObserver for NoObserver {
    fn answered(&self, _step: &'static str) {}
    fn failed(&self, _step: &'static str, _error: &StoreError) {}
}

type ClientResult<T> = Result<Timestamped<T>, StoreError>;

impl Client {
    /// Creates a client with a response timeout of 5 s.
    pub fn new(store: impl Store) -> Self {
        Self::of(Arc::new(store))
    }

    /// Creates a client of a shared store.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self::within(store, Duration::from_secs(5))
    }

    /// Creates a client with this response timeout.
    pub(super) fn within(store: Arc<dyn Store>, within: Duration) -> Self {
        let time = StoreClock::new(Arc::new(SystemClock));
        Self(Arc::new(ClientParts { store, time, semaphore_mutexes: KeyMutexes::default(), within }))
    }

    /// Returns the store.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    fn requests(&self) -> StoreClient<'_> {
        let ClientParts { store, time, semaphore_mutexes, within } = &*self.0;
        StoreClient { store: &**store, time, semaphore_mutexes, observer: &NoObserver, within: *within }
    }

    /// Adds the estimate of the store's time after an answer.
    fn stamped<T>(&self, reply: T) -> Timestamped<T> {
        Timestamped { at: self.0.time.now(), reply }
    }

    /// Returns the store's time.
    pub async fn ping(&self) -> ClientResult<()> {
        Ok(Timestamped { at: self.requests().ping().await?, reply: () })
    }

    /// Claims a key, with a look first.
    pub async fn claim(&self, key: &str, claim: &Claim) -> ClientResult<ClaimReply> {
        let answer =
            self.requests().claim(key, claim, false, &mut UnansweredSwaps::of(claim.token.clone())).await?;
        Ok(Timestamped { at: answer.now, reply: answer.reply })
    }

    /// Claims a key as a server does with the first request of a claim: a manual lock without a look.
    pub async fn claim_first(&self, key: &str, claim: &Claim) -> ClientResult<ClaimReply> {
        let answer =
            self.requests().claim(key, claim, true, &mut UnansweredSwaps::of(claim.token.clone())).await?;
        Ok(Timestamped { at: answer.now, reply: answer.reply })
    }

    /// Claims a key and caches the record, so that extension and release need no look; `None` if it was refused.
    pub async fn acquire(&self, key: &str, claim: &Claim) -> Result<Option<AcquiredLease>, StoreError> {
        let answer =
            self.requests().claim(key, claim, true, &mut UnansweredSwaps::of(claim.token.clone())).await?;
        let ClaimDecision::Won(won) = &answer.reply.decision else { return Ok(None) };
        let lease = won.lease.clone();
        Ok(Some(AcquiredLease { client: self.clone(), key: key.to_owned(), lease, written: answer.written }))
    }

    /// Extends a lease, with a look first.
    pub async fn extend(&self, key: &str, lease: &Lease) -> ClientResult<ExtendReply> {
        let answer = self.requests().extend(key, lease, None).await?;
        Ok(Timestamped { at: answer.now, reply: answer.reply })
    }

    /// Ends a lease, with a look first.
    pub async fn release(&self, key: &str, lease: &Lease, end: &Ending) -> ClientResult<ReleaseReply> {
        let answer = self.requests().release(key, lease, end, None).await?;
        Ok(Timestamped { at: answer.now, reply: answer.reply })
    }

    /// Breaks the lock of a key and its slots.
    pub async fn break_lock(&self, key: &str, remember: usize) -> ClientResult<Vec<HeldLock>> {
        let reply = self.requests().break_lock(key, &"client".into(), remember).await?;
        Ok(self.stamped(reply))
    }

    /// Asks the server that runs a job to cancel the run.
    pub async fn cancel(&self, key: &str) -> ClientResult<Option<CurrentRun>> {
        let reply = self.requests().cancel(key, &"client".into()).await?;
        Ok(self.stamped(reply))
    }

    /// Returns the locks and slots that are held.
    pub async fn locks(&self) -> ClientResult<Vec<HeldLock>> {
        let reply = self.requests().locks().await?;
        Ok(self.stamped(reply))
    }

    /// Pauses a job.
    pub async fn pause(&self, key: &str, order: &PauseOrder) -> ClientResult<Pause> {
        let reply = self.requests().pause(key, order, REMEMBERED).await?;
        Ok(self.stamped(reply))
    }

    /// Resumes a job.
    pub async fn resume(&self, key: &str, all: bool) -> ClientResult<Option<Pause>> {
        let reply = self.requests().resume(key, "operator", all, REMEMBERED).await?;
        Ok(self.stamped(reply))
    }

    /// Pauses or resumes a job.
    pub async fn set_paused(&self, key: &str, paused: bool) -> ClientResult<()> {
        let by = Arc::<str>::from("operator");
        if paused {
            let order = PauseOrder { by, reason: None, lasts: None, all: false };
            self.requests().pause(key, &order, REMEMBERED).await?;
        } else {
            self.requests().resume(key, &by, false, REMEMBERED).await?;
        }
        Ok(self.stamped(()))
    }

    /// Lowers a mark that is in the future.
    pub async fn reset(&self, key: &str) -> ClientResult<()> {
        self.requests().reset(key).await?;
        Ok(self.stamped(()))
    }

    /// Removes an unused job.
    pub async fn forget(&self, key: &str, quiet: Duration) -> ClientResult<Forgotten> {
        let reply = self.requests().forget(key, quiet).await?;
        Ok(self.stamped(reply))
    }

    /// Requests a manual run.
    pub async fn request(&self, key: &str, id: &str, by: &str, ttl: Duration) -> ClientResult<RunRequest> {
        let reply = self.requests().request(key, id, by, ttl).await?;
        Ok(self.stamped(reply))
    }

    /// Returns the history of a job.
    pub async fn history(&self, key: &str) -> ClientResult<History> {
        let (reply, at) = self.requests().history(key).await?;
        Ok(Timestamped { at, reply })
    }

    /// Writes the heartbeat of a server.
    pub async fn announce(&self, server: &str, about: &str, ttl: Duration) -> ClientResult<Vec<Note>> {
        let reply = self.requests().announce(server, about.into(), ttl).await?;
        Ok(self.stamped(reply))
    }

    /// Removes the heartbeat of a server.
    pub async fn leave(&self, server: &str) -> ClientResult<()> {
        self.requests().leave(server).await?;
        Ok(self.stamped(()))
    }

    /// Returns the servers with a heartbeat.
    pub async fn servers(&self) -> ClientResult<Vec<ServerInfo>> {
        let announced = self.requests().announced_servers().await?;
        Ok(self.stamped([announced.alive, announced.lost].concat()))
    }
}

/// A lease that a [`Client`] has acquired.
pub struct AcquiredLease {
    client: Client,
    key: String,
    /// The lease.
    pub lease: Lease,
    written: Option<CachedRecord>,
}

impl AcquiredLease {
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
