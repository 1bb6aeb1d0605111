//! Where claims are decided.

use std::pin::Pin;
use std::time::Duration;

use crate::Timestamp;

#[cfg(any(feature = "postgres", feature = "redis"))]
mod bells;
mod error;
pub mod file;
mod finding;
mod listen;
pub mod memory;
mod messages;
pub mod model;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod network;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod redial;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod rival;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod shared;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod timeouts;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod tls;

pub use error::{StoreError, StoreErrorKind};
pub(crate) use finding::names;
pub use finding::{Finding, FindingKind, Severity};
pub use listen::{Bell, Listener};
pub use messages::{
    Announcement, Claim, ClaimReply, CurrentRun, Ending, ExtendReply, FailedTry, ForgetReply, HeldLock,
    History, Holder, JobInfo, Kind, Lease, Progress, REMEMBERED, Registered, ReleaseReply, RequestAnswer,
    RequestHint, Requested, RunOutcome, RunRecord, RunRequest, RunningInfo, ServerInfo, Skip, SkipRecord,
    Stats, Taken, TickClaim, Unfinished, Verdict, What, Won,
};
#[cfg(all(feature = "tls", any(feature = "postgres", feature = "redis")))]
pub use tls::Certificates;

/// What a store's methods return: a reply and the store's time at which it was decided.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<Stamped<T>, StoreError>> + Send + 'a>>;

/// What [`Store::diagnose`] returns.
pub type FindingsFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Finding>, StoreError>> + Send + 'a>>;

/// What [`Store::listen`] returns; `None` from a store that cannot tell.
pub type ListenFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Listener>, StoreError>> + Send + 'a>>;

/// A reply with the store's own time, from which servers learn how far their clocks are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped<T> {
    /// The store's clock when the reply was decided.
    pub at: Timestamp,
    /// The reply.
    pub reply: T,
}

/// Where claims are decided: Redis, PostgreSQL, a folder, memory, or a store of your own.
///
/// Each method is one atomic step, decided on the store's own clock in one round trip, and behaves exactly
/// as the function of the same name in [`model`]. A refusal is a reply; only a step whose result is
/// unknown is an error. Callers repeat a step after an error, so a step must survive being applied twice.
///
/// A store of your own is proved by `jobs::testing::store`, with the feature `store-testing`.
pub trait Store: Send + Sync + 'static {
    /// Where the store is, for logs and errors; never with a password.
    fn location(&self) -> String;

    /// Reaches the store and asks for its time.
    fn ping(&self) -> StoreFuture<'_, ()>;

    /// Tries to become the holder of a key, for a tick or right now.
    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict>;

    /// Keeps a lease for another `lease.ttl`.
    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply>;

    /// Ends a lease and records its run.
    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply>;

    /// Frees a key, and every slot of it, whoever holds them, for an operator. The reply is what was held.
    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>>;

    /// The locks and slots that are held.
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>>;

    /// Hears of it when the key, or a slot of it, is freed: by [`release`](Self::release) and by
    /// [`break_lock`](Self::break_lock), while a claim that [waits](Claim::waits) was made less than a minute ago. A
    /// store that cannot tell is asked again and again.
    fn listen<'a>(&'a self, _key: &'a str) -> ListenFuture<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Makes every server skip the job's ticks from now on, or run them again.
    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()>;

    /// Takes back a mark that lies in the future of the store's clock.
    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()>;

    /// Removes all that is known of a job that was not used for `quiet`.
    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply>;

    /// Asks for a run by hand on a server that has the job. Every announcement is told of it until it expires.
    /// The reply is the request that counts: this one, or an earlier one that still waits.
    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested>;

    /// What is known of a job.
    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History>;

    /// A server says that it is there, and learns which runs were requested.
    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>>;

    /// A server says that it is gone.
    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()>;

    /// The servers whose announcements still count.
    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>>;

    /// Looks for what could hurt: settings of the store, and states of these jobs that this version cannot read.
    ///
    /// Asked once at start, after a [`ping`](Store::ping): in one or two round trips, whatever the number of jobs. What
    /// may not be looked at is a [note](Finding::not_checked), not an error. Finds nothing unless a store says more.
    fn diagnose<'a>(&'a self, _jobs: &'a [String]) -> FindingsFuture<'a> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
