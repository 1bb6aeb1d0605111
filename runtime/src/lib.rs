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
//! | run | one execution of a job under a lease; it ends in an [outcome](history::RunOutcome) and leaves a [record](history::RunRecord) |
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
//! [`singleton_job`] → `job/registry.rs` → `tick/timetable.rs` → `tick/scheduler.rs` → `tick/mod.rs`, the page that shows a
//! whole tick → `tick/claim.rs` → `lease/pending.rs` → `store/client` (look, decide, swap; the rules are pure functions in
//! [`store::decide`]) → `tick/execute.rs` under the lease that `lease/mod.rs` keeps alive → release and record, again by
//! `store/client`.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The attribute's code names `::jobs`; this lets the crate's own documentation and tests use it.
#[allow(unused_extern_crates, reason = "named by generated code, not by ours")]
extern crate self as jobs;

#[path = "docs/guide.rs"]
pub mod guide;
mod job;
mod lease;
pub mod locks;
mod observe;
mod server;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tick;
#[cfg_attr(
    not(any(test, feature = "testing")),
    allow(dead_code, reason = "the test kit stops and kills tasks")
)]
mod util;

#[cfg(test)]
mod tests;

pub use job::current::assert_locked;
#[doc(hidden)]
pub use job::generated as __private;
pub use job::outcome::{BoxError, IntoOutcome, JobError};
pub use job::parameters::{FromRun, State};
pub use job::run::Run;
pub use job::{Job, JobBuilder};
pub use locks::{leader, lock, once, semaphore};
pub use observe::health::Health;
pub use server::builder::{Builder, builder};
pub use server::error::{JobProblem, StartError};
pub use server::handle::{Closed, Jobs};
pub use server::manual_run::RunNow;
pub use singleton_jobs_macros::{locked, singleton_job};
pub use singleton_jobs_policy::Timestamp;
pub use util::clock;
pub use util::duration::IntoDuration;

/// What happens on a server, as values: see [`Jobs::events`] and [`Builder::on_event`].
pub mod events {
    pub use crate::observe::event::{Event, EventKind, Events, RunRef, SkipReason};
    pub use crate::store::decide::messages::Taken;
}

/// The runs and skipped ticks of a job: see [`Jobs::history`](crate::Jobs::history).
pub mod history {
    pub use crate::store::decide::messages::{
        CurrentRun, FailedTry, History, Progress, RunOutcome, RunRecord, Skip, SkipRecord, Stats,
    };
}

/// The servers, and what they hold: see [`Jobs::servers`](crate::Jobs::servers) and [`Jobs::locks`](crate::Jobs::locks).
pub mod fleet {
    pub use crate::store::decide::messages::{
        Forgotten, HeldLock, Holder, JobInfo, LeaseKind, RunningInfo, ServerInfo,
    };
}

/// Problems with the store or the jobs: see [`Jobs::diagnose`](crate::Jobs::diagnose).
pub mod diagnosis {
    pub use crate::observe::finding::{Finding, FindingKind, Severity};
}

/// Schedules and policies.
pub mod schedule {
    pub use singleton_jobs_policy::{
        Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule, ScheduleError,
    };
}

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
