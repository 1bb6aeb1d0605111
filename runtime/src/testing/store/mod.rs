//! Tests for a store of your own: every promise of the trait by name, and random operations that are replayed.
//!
//! Needs the feature `store-testing`, which includes `testing`, under `[dev-dependencies]`:
//! `jobs = { package = "singleton-jobs", version = "…", features = ["store-testing"] }`. The stores of this crate pass the
//! same tests.
//!
//! ```
//! # mod doc {
//! # type MyStore = jobs::store::memory::MemoryStore;
//! # fn my_store() -> MyStore { MyStore::new(std::sync::Arc::new(jobs::clock::SystemClock)) }
//! use jobs::testing::store::{Subject, random_operations};
//!
//! async fn open() -> Subject {
//!     let store = my_store(); // that holds nothing yet
//!     Subject::new(store.clone()).with_wipe(move |key| {
//!         store.wipe(&key); // your `DELETE FROM job WHERE key = …`
//!         async {}
//!     })
//! }
//!
//! jobs::store_contract!(my_store_keeps: open, without lock, namespaces);
//!
//! #[tokio::test(flavor = "multi_thread")]
//! async fn my_store_keeps_what_a_record_would() {
//!     random_operations(open().await, 2_000).await;
//! }
//! # }
//! ```
//!
//! [`store_contract!`](crate::store_contract) makes a test of each promise, so `cargo test` lists all of them by name.
//! [`contract`] is the same in one test:
//!
//! ```
//! use jobs::testing::store::{Capability, Subject, contract};
//! # use jobs::{clock::SystemClock, store::memory::MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let my_store = || MemoryStore::new(std::sync::Arc::new(SystemClock));
//! contract(async || Subject::new(my_store()), &[Capability::Wipe, Capability::Lock, Capability::Namespaces]).await;
//! # }
//! ```
//!
//! # What is proved
//!
//! A store decides nothing: every rule, from the claim of a tick to a semaphore, is the same on every store, and is proved
//! in this crate. What is left to a store is proved here, on the store itself and in real time:
//!
//! - The **contract**: some fifty promises about looks and swaps, fences, versions and limits, records, the lock that other
//!   programs see, the list, notes and notifications, odd keys and namespaces. For example: *one of many concurrent swaps
//!   from a version is applied*, *a refused swap changes nothing and shows the key*. The name of a promise that is not kept
//!   says what is wrong.
//! - **Random operations**: sequences of up to 31 messages and accidents on one key, as servers send them, with lost
//!   answers, late copies of swaps, leases that expire, wiped keys and foreign locks. Every swap is replayed on a plain
//!   [`Record`](crate::store::Record) with the clock that the store answered, and after every step the store must show what
//!   the record shows. This finds mistakes that no promise is about; a sequence is shortened before it is shown.
//!
//! A [`Subject`] is the store, and ways to reach it from outside. All of them are optional. Promises that need a way that
//! is not there are reported as *ignored, not applicable* by the macro, and must be named in the call of [`contract`];
//! they are never counted as kept.
//!
//! | [`Capability`] | what it is for | without it |
//! |---|---|---|
//! | [`Wipe`](Capability::Wipe) | the store loses a key, as by a restored backup or a failover | nothing is proved about what follows a wipe |
//! | [`SharedLock`](Capability::Lock) | other programs see the lock and may set it, as on Redis | nothing is proved about the lock |
//! | [`Namespaces`](Capability::Namespaces) | services share the store | nothing is proved about namespaces |
//! | [`Notifications`](Capability::Notifications) | a process that waits for a key is notified | waiting works by polling |
//!
//! # What is not proved
//!
//! - **Atomicity between processes**: concurrent swaps come from one process. That no other process can get in between is
//!   for you to show: one transaction, one script or one statement for each swap, and a test with real processes.
//! - **Durability**: that a swap which the store acknowledged survives its crash, or a failover.
//! - **The source of its clock**: that the time is the store's own, and the same for all servers.
//! - **Trouble**: that an unreachable or full store is an [error](crate::store::StoreError) in good time, and of the right kind.
//!
//! # How long it takes
//!
//! Promises wait for up to two seconds for a record or a limit to expire, eight at a time. On a store that answers in a
//! millisecond the contract takes a few seconds, and 2,000 sequences about ten.

#[doc(hidden)]
pub mod bench;
mod client;
mod contract;
#[doc(hidden)]
pub mod losing_server;
mod promises;
#[cfg(feature = "store-testing")]
mod random;
mod subject;
mod test_key;

pub use client::{AcquiredLease, Client, Timestamped};
pub use contract::{contract, prove};
#[cfg(feature = "store-testing")]
pub use random::random_operations;
pub use subject::{AccessFuture, Capability, ExternalAccess, Subject};
