//! Where the records are: the two verbs that a store offers, the rules that are decided on them, and the stores.

use std::pin::Pin;
use std::time::Duration;

use crate::Timestamp;

mod client;
pub mod decide;
mod error;
pub mod file;
mod format;
mod key_state;
mod look;
pub mod memory;
mod net;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;
#[cfg(feature = "redis")]
pub mod redis;

pub(crate) use crate::observe::finding::Finding;
pub(crate) use crate::observe::finding::names;
pub(crate) use client::{
    CachedRecord, KeyMutexes, RequestObserver, StoreClient, TimedReply, UnansweredSwaps, record_key,
};
pub use decide::messages::{
    Claim, ClaimAnswer, ClaimPurpose, ClaimReply, Ending, ExtendReply, Gap, Lease, REMEMBERED,
    RegisteredSchedule, ReleaseReply, RequestAnswer, RunRequest, TickClaim, UnfinishedTick, WonClaim,
};
pub(crate) use decide::messages::{
    CurrentRun, Forgotten, HeldLock, History, Holder, LeaseKind, RunOutcome, RunRecord, Skip, SkipRecord,
    Taken,
};
pub use error::{StoreError, StoreErrorKind};
pub use format::{FORMAT, UnreadableRecord, to_ascii_json};
pub use key_state::{DoneMark, KeyState, StartedTick, TickMark};
pub use look::{
    Change, FenceChange, JobRecord, JobRecords, LockChange, Look, Note, Notes, Page, SharedLock, Swap,
    SwapReply, Swapped, Topic, Version,
};
pub use net::subscriptions::{Notifier, Subscription};
#[cfg(all(feature = "tls", any(feature = "postgres", feature = "redis")))]
pub use net::tls::Certificates;
pub use record::Record;

/// What a store's methods return.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where the records are: Redis, PostgreSQL, a folder, memory, or a store of your own.
///
/// A store decides nothing. It keeps one record per key, shows it ([`look`](Self::look)), and replaces it if nothing has
/// changed since ([`swap`](Self::swap)). Every rule, from the claim of a tick to a semaphore, is decided by the pure
/// functions of [`decide`], and is the same on every store.
///
/// Only a request whose result is unknown is an error; it may or may not have been applied, now or a little later.
///
/// A store of your own is proved by `jobs::testing::store`, with the feature `store-testing`.
pub trait Store: Send + Sync + 'static {
    /// The store's address for logs and errors, without a password.
    fn location(&self) -> String;

    /// Shows a key, in one round trip and without a write.
    ///
    /// Version, fence and state belong together. The clock and the lock may be read just before or after them. The answer
    /// comes from the primary: it is never older than the last swap that was acknowledged.
    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look>;

    /// Applies a change if the key's version and lock are as expected and the store's clock is within the limits; else
    /// changes nothing, and shows the key.
    ///
    /// One atomic step, on the store's own clock: [`Record::swap`] says what it means. The clock is read when nothing is left
    /// to wait for: later swaps of a key have later instants, also across a deletion of its record, because versions and
    /// fences come from them. A store that removes [expired](KeyState::expires) records must check, in the step that removes
    /// one, that it still is.
    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply>;

    /// Lists keys with their looks: the first page, or the one that the last page's [`next`](Page::next) names. Records
    /// that cannot be read are left out.
    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page>;

    /// The run and skip records of a key.
    fn records<'a>(&'a self, key: &'a str) -> StoreFuture<'a, JobRecords>;

    /// Puts a note that expires after `ttl`, in place of an earlier one of the same name; removes it if `ttl` is zero. Returns
    /// the store's time.
    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp>;

    /// The notes of a topic that have not expired.
    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes>;

    /// Subscribes to a key: notified by every swap with [`notify`](Change::notify) for the next minute; to stay subscribed,
    /// call it again. `None` from a store without notifications, which is polled instead.
    fn listen<'a>(&'a self, _key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Looks for problems: settings of the store, and records of these jobs that this version cannot read.
    ///
    /// Called once at start, in one or two round trips, whatever the number of jobs. What may not be looked at is a
    /// [note](Finding::not_checked), not an error. Finds nothing by default.
    fn diagnose<'a>(&'a self, _jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
