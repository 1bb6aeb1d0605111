//! Annotate an async function, and for each of its scheduled ticks **at most one of your servers starts it**,
//! whatever their clocks, restarts, retries or lost replies. **It is not "exactly once":** a tick can be
//! skipped, and a run can end half-way, so make writes repeatable.
//!
//! ```no_run
//! use jobs::{Run, State, singleton_job};
//!
//! #[derive(Clone)]
//! struct Db; // a connection pool, say
//!
//! /// Pulls new products from the supplier.
//! #[singleton_job(key = "import-products", ttl = "60s", every = "0 * * * *")]
//! async fn import_products(State(db): State<Db>, run: Run) -> Result<(), std::io::Error> {
//!     let _ = (db, run.fence()); // upsert by a stable id, guarded by the fence
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let jobs = jobs::builder().state(Db).start_all().await?; // or jobs::start_all()
//!     // serve …
//!     jobs.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! Every server schedules every job. When a tick is due they all claim it on a shared [store](store::Store);
//! one wins, and runs the function under a *lease*: a lock with an expiry, kept alive while the function runs,
//! released when it ends, expiring by itself if the server dies. The store is Redis, PostgreSQL, a folder of files
//! for processes on one machine, or memory for tests; `JOBS_URL` names it.
//!
//! | word | meaning |
//! |---|---|
//! | job | an annotated function, or a [`Job`] built at run time: a key, a schedule, a policy |
//! | tick | one scheduled instant of a job, in UTC: the same on every server |
//! | server | one running scheduler, what [`start_all`] returns |
//! | claim | the attempt to become the runner of a tick |
//! | mark | the newest tick of a job that was claimed or skipped: nothing piles up behind it |
//! | lease | the lock while it is held: token, fence, expiry |
//! | fence | a number that only grows from one lease of a key to the next |
//! | run | one execution of a job under a lease; it ends in an [outcome](RunOutcome) and leaves a [record](RunRecord) |
//!
//! # What is promised, and what is not
//!
//! 1. For each job and tick at most one server starts the job, as long as the store keeps the writes that it
//!    acknowledged. With `on_crash = "retry"`: at most one at a time, each attempt with a higher fence.
//! 2. No run starts before its tick by the store's clock.
//! 3. Runs of one job do not overlap while the store keeps its writes, its clock does not jump, and no holder is
//!    paused, or goes without an `await`, past its lease. A run that can no longer prove its lease is told
//!    before the lease expires, and dropped at its next `await`; its [fence](Run::fence) is lower than its
//!    successor's, so fenced writes stay safe even then.
//! 4. A server that loses the race does nothing, and logs one line at debug level.
//! 5. A tick can be skipped: its server crashed, the store was away for longer than the grace, the last run was
//!    still going, the job is paused. What was skipped is in the log, in [`Jobs::events`] and in [`Jobs::history`].
//!    `retries`, `overlap = "queue"`, `missed = "run_once"` and `on_crash = "retry"` make that rarer.
//!
//! The [`guide`] says for each policy what happens in each failure, and how long it takes. [`testing`] puts your jobs
//! through them: ten servers, crashes and wrong clocks in milliseconds.
//!
//! # Following a tick through the source
//!
//! annotation ([`singleton_job`]) → `registry` → `agenda` → `scheduler` → `tick` → `claim` → `lease/pending` →
//! `store/requests` (look, decide, swap) → `execute` under a `lease` → release and record in the [store]. The rules are
//! pure functions in [`store::decide`].

// The attribute's code names `::jobs`; this lets the crate's own documentation and tests use it.
#[allow(unused_extern_crates, reason = "named by generated code, not by ours")]
extern crate self as jobs;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod agenda;
mod application;
mod backoff;
mod builder;
mod by_hand;
mod claim;
pub mod clock;
mod clock_watch;
mod config;
mod current;
mod diagnosis;
mod error;
mod event;
mod execute;
mod extract;
pub mod guide;
mod handle;
mod health;
mod hook;
mod host;
mod job;
mod lease;
mod locks;
mod log;
mod outcome;
mod place;
mod polls;
mod presence;
mod proof;
mod registry;
mod report;
mod retry;
mod roster;
mod run;
mod running;
mod scheduler;
mod server;
mod signal;
pub mod store;
mod store_time;
mod takeover;
pub mod testing;
mod tick;
mod token;
mod util;
mod waiting;
mod watched;

#[cfg(test)]
mod tests;

pub use builder::{Builder, builder};
pub use by_hand::RunNow;
pub use current::assert_locked;
pub use error::{JobProblem, StartError};
pub use event::{Event, EventKind, Events, RunRef, SkipReason};
pub use extract::{FromRun, State};
pub use handle::{Closed, Jobs};
pub use health::Health;
pub use job::{Job, JobBuilder};
pub use locks::{
    Campaign, Completion, Guard, IntoDuration, KeyPart, Leader, Lock, LockError, Locked, NotRun, Once,
    OnceError, RunOnce, Semaphore, Standing, Term, leader, lock, once, semaphore,
};
pub use outcome::{BoxError, IntoOutcome, JobError};
pub use run::Run;
pub use singleton_jobs_macros::{locked, singleton_job};
pub use singleton_jobs_policy::{
    Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule, ScheduleError, Timestamp,
};
pub use store::{
    CurrentRun, Finding, FindingKind, Forgotten, HeldLock, History, Holder, Kind, Progress, RunOutcome,
    RunRecord, ServerInfo, Severity, Skip, SkipRecord, Stats, Store, StoreError, StoreErrorKind, Taken,
};

/// Starts every annotated job of this program on the configured store. The short form of
/// `jobs::builder().start_all()`.
pub async fn start_all() -> Result<Jobs, StartError> {
    builder().start_all().await
}

/// For a worker that does nothing else: starts every annotated job, waits for SIGTERM or ctrl-c, shuts down.
pub async fn run_until_signal() -> Result<(), StartError> {
    builder().run_until_signal().await
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
