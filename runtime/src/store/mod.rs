//! Stores: the trait with its two verbs, the rules that every store shares, and the stores of this crate.

use std::pin::Pin;
use std::time::Duration;

use crate::Timestamp;

mod client;
pub mod decide;
mod error;
pub mod file;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
mod net;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub(crate) use crate::observe::finding::Finding;
pub(crate) use crate::observe::finding::names;
pub(crate) use client::{
    AnnouncedServers, CachedRecord, FLEET, KeyMutexes, KeySubscription, RequestObserver, StoreClient,
    TimedReply, UnansweredSwaps, is_job, lock_key, record_key, step,
};
pub use decide::messages::{
    Action, ActionKind, Claim, ClaimDecision, ClaimPurpose, ClaimReply, Ending, ExtendReply, FleetState, Gap,
    Lease, Pause, PauseOrder, REMEMBERED, RegisteredSchedule, ReleaseReply, RequestAnswer, RunDetails,
    RunRequest, TickClaim, Trigger, UnfinishedTick, WonClaim,
};
pub(crate) use decide::messages::{
    CurrentRun, Forgotten, HeldLock, History, Holder, LeaseKind, RunOutcome, RunRecord, Skip, SkipHolder,
    SkipRecord, Taken,
};
pub use error::{StoreError, StoreErrorKind};
pub use net::subscriptions::{Notifier, Subscription};
#[cfg(all(feature = "tls", any(feature = "mysql", feature = "postgres", feature = "redis")))]
pub use net::tls::Certificates;
pub use record::Record;
pub use record::fence::{EndedLease, FenceTable, FencedLease, FinishMark, LeaseId, NotCurrent};
pub use record::format::{FORMAT, UnreadableRecord, to_ascii_json};
pub use record::key_state::{DoneMark, KeyState, StartedTick, TickMark};
pub use record::look::{
    Change, FenceChange, JobRecord, JobRecords, LockChange, Look, Note, Notes, Page, SharedLock, Swap,
    SwapReply, Swapped, Topic, Version,
};

/// The future that a store's methods return.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A database of records, one per key: Redis, PostgreSQL, a folder, memory, or a store of your own.
///
/// A store decides nothing. It shows the record of a key ([`look`](Self::look)), and replaces it if nothing has changed
/// since ([`swap`](Self::swap)). Every rule, from the claim of a tick to a semaphore, is a pure function in [`decide`].
///
/// An error means that the result is unknown: the request may have been applied, or may be applied later.
///
/// No method blocks its thread, which extends all leases of the server: use `spawn_blocking` for what does.
///
/// Test a store of your own with `jobs::testing::store` (feature `store-testing`).
pub trait Store: Send + Sync + 'static {
    /// Returns the store's address for logs and errors, without a password.
    fn location(&self) -> String;

    /// Shows a key, in one round trip and without a write.
    ///
    /// Version, fence and state are read together; the clock and the lock may be read just before or after them. The answer
    /// comes from the primary: it includes every swap that was acknowledged.
    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look>;

    /// Applies a change if the key's version and lock are as expected and the store's clock is within the limits.
    /// Otherwise changes nothing, and shows the key.
    ///
    /// The swap is one atomic step, with the meaning of [`Record::swap`]. The store reads its own clock after every wait, so
    /// that later swaps of a key have later instants, even if the record was deleted in between: versions and fences come
    /// from them. A store that removes [expired](KeyState::expires) records checks the expiry in the same atomic step.
    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply>;

    /// Lists keys with their looks: the first page, or the one that the previous page's [`next`](Page::next) names.
    /// Leaves out records that cannot be read.
    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page>;

    /// Returns the run and skip records of keys, in the order of the keys: of each kind the newest ones, at most so many. A store
    /// that is asked over a network answers in one round trip, or in one per node.
    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>>;

    /// Writes a note that expires after `ttl`, and replaces one of the same name; removes it if `ttl` is zero. Returns the
    /// store's time.
    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp>;

    /// Returns the notes of a topic that have not expired.
    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes>;

    /// Subscribes to a key for one minute: every swap with [`notify`](Change::notify) notifies the subscription. Call it
    /// again to stay subscribed. Returns `None` if the store has no notifications; it is then polled.
    fn listen<'a>(&'a self, _key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the table in which transactions of the application [finish a run](crate::Run::finish); `None` if the store is not a
    /// database.
    fn fence_table(&self) -> Option<FenceTable> {
        None
    }

    /// Looks for problems: settings of the store, and records of these jobs that this version cannot read.
    ///
    /// Called once at start, in one or two round trips, whatever the number of jobs. A setting that the store's user may not
    /// read is a [note](Finding::not_checked), not an error.
    fn diagnose<'a>(&'a self, _jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
