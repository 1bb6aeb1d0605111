//! A fleet of servers in one process, to test *your* jobs under ten servers in milliseconds.
//!
//! Needs the feature `testing`, under `[dev-dependencies]`:
//!
//! ```toml
//! [dev-dependencies]
//! jobs = { package = "singleton-jobs", version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["full", "test-util"] }
//! ```
//!
//! The servers of a [`Fleet`] run the same scheduler, claim, lease and run as in production, on a store in memory.
//! With Tokio's paused clock (`tokio = { features = ["test-util"] }` and `start_paused = true`) hours pass at once, and
//! each test takes the same course every time. A server's clock can be wrong; it can crash, be stopped like a process
//! by SIGSTOP, and lose its connection to the store. [`Fleet::chaos`] draws such faults from a seed.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//! use jobs::{Job, testing::Fleet};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let imported = Arc::new(Mutex::new(0));
//! let import = {
//!     let imported = imported.clone();
//!     move || {
//!         let imported = imported.clone();
//!         let job = Job::builder("import").every("0 * * * *").run(move |_| {
//!             *imported.lock().unwrap() += 1;
//!             async {}
//!         });
//!         job.build().unwrap()
//!     }
//! };
//!
//! let fleet = Fleet::of(10).job(import).clock_off_by(3, -5_000).start().await.unwrap();
//! fleet.run_for(Duration::from_secs(3 * 3600 + 60)).await;
//! assert_eq!(*imported.lock().unwrap(), 3, "once an hour, not ten times");
//! # }
//! ```

mod chaos;
pub mod check;
mod clock;
mod fleet;
mod intercept;
mod memory;
mod network;
mod process;
mod server;
pub mod simulation;
#[cfg(any(test, feature = "store-testing"))]
pub mod store;

pub use chaos::Chaos;
pub use clock::TestClock;
pub use fleet::{Fleet, FleetBuilder};
pub use intercept::{Hook, HookFuture, Intercept, Request};
pub(crate) use process::SimulatedProcess;
pub use server::TestServer;

/// Makes [`assert_locked`](crate::assert_locked) pass on this thread until the returned value is dropped, for a unit test
/// that calls such code without a job.
///
/// ```
/// fn close_the_books() -> u32 {
///     jobs::assert_locked();
///     42
/// }
///
/// let _locked = jobs::testing::pretend_locked();
/// assert_eq!(close_the_books(), 42);
/// ```
#[must_use = "it lasts as long as the returned value"]
pub fn pretend_locked() -> impl Drop {
    crate::job::current::pretend()
}
