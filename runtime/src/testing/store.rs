//! The proof of a store of your own: the promises of the contract one by one, and random operations against the model.
//!
//! Needs the feature `store-testing`, under `[dev-dependencies]`:
//! `jobs = { package = "singleton-jobs", version = "…", features = ["store-testing"] }`. The stores of this crate are
//! proved by the same code.
//!
//! ```
//! # mod doc {
//! # type MyStore = jobs::store::memory::MemoryStore;
//! # fn my_store() -> MyStore { MyStore::new(std::sync::Arc::new(jobs::clock::SystemClock)) }
//! use jobs::testing::store::{Subject, random_operations};
//!
//! async fn open() -> Subject {
//!     let store = my_store(); // that holds nothing yet
//!     Subject::new(store.clone()).wiped_by(move |key| {
//!         store.tamper(&key, |row| *row = Default::default()); // your `DELETE FROM job WHERE key = …`
//!         async {}
//!     })
//! }
//!
//! jobs::store_contract!(my_store_keeps: open, without lock, namespaces);
//!
//! #[tokio::test(flavor = "multi_thread")]
//! async fn my_store_answers_as_the_model_does() {
//!     random_operations(open().await, 2_000).await;
//! }
//! # }
//! ```
//!
//! [`store_contract!`](crate::store_contract) makes a test of each promise, so `cargo test` lists all of them by name.
//! [`contract`] is the same in one test:
//!
//! ```
//! use jobs::testing::store::{Need, Subject, contract};
//! # use jobs::{clock::SystemClock, store::memory::MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let my_store = || MemoryStore::new(std::sync::Arc::new(SystemClock));
//! contract(async || Subject::new(my_store()), &[Need::Wipe, Need::Lock, Need::Namespaces]).await;
//! # }
//! ```
//!
//! # What is proved
//!
//! - The **contract**: more than a hundred promises, each a short story of what servers and operators do to a key, and what
//!   they must be told: *a late server does not rerun a finished tick*, *a stale token can neither extend nor release its
//!   successor's lease*. If one is not kept, its name says what is wrong.
//! - **Random operations**: sequences of up to 31 steps, with lost replies, late and twisted messages, leases that expire,
//!   and accidents, all on one key. Each answer must be the [model](crate::store::model)'s, word for word. This finds
//!   what nobody thought of; a sequence is shortened before it is shown.
//!
//! A [`Subject`] is the store, and hands that reach into it from outside. All of them are optional. What needs a hand
//! that is not there is reported as *ignored, not applicable* by the macro, and must be named in the call of
//! [`contract`]; it is never counted as kept.
//!
//! | [`Need`] | what it is for | without it |
//! |---|---|---|
//! | [`Wipe`](Need::Wipe) | the store loses a key, as by a restored backup or a failover: holders put their leases back | what follows a wipe is left out |
//! | [`Lock`](Need::Lock) | other programs see the lock and may set it, as on Redis | strangers' and vanished locks are left out, and nobody looks at the lock |
//! | [`Namespaces`](Need::Namespaces) | services share the store | that namespaces are separate is left out |
//!
//! # What is not proved
//!
//! - **Atomicity**, but for claims that are sent at once from one process: of those one wins. That no two servers
//!   elsewhere can get in between is for you to show: one transaction, one script or one statement for each step, and a
//!   test with real processes.
//! - **Durability**: that what the store acknowledged survives its crash, or a failover.
//! - **Its clock**: that the time is the store's own, and the same for all servers.
//! - **Trouble**: that an unreachable or full store is an [error](crate::StoreError) in good time, and of the right kind.
//!
//! # How long it takes
//!
//! Promises wait for leases of 150 ms to expire, eight at a time. On a store that answers in a millisecond the contract
//! takes about a second, and 2,000 sequences some ten.

#[doc(hidden)]
pub mod bench;
mod client;
mod contract;
mod key;
mod promises;
#[cfg(feature = "store-testing")]
mod random;
mod subject;

pub use client::{Acquired, Client, Stamped};
pub use contract::{contract, prove};
#[cfg(feature = "store-testing")]
pub use random::random_operations;
pub use subject::{Need, Subject, Tamper, Tampering};
