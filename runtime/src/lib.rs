//! Annotate an async function, and for each of its scheduled ticks **at most one of your servers starts it**,
//! whatever their clocks, restarts, retries or lost replies. **It is not "exactly once":** a tick can be skipped,
//! and a run can end half-way, so make writes repeatable.
//!
//! ```no_run
//! use jobs::{Run, State, singleton_job};
//!
//! #[derive(Clone)]
//! struct Db; // a connection pool, for example
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
//! Every server schedules every job. When a tick is due they all claim it on a shared [store](store::Store). One wins and
//! runs the function under a *lease*: a lock with an expiry, extended while the function runs, released when it ends, and
//! expiring by itself if the server dies. The store is Redis, PostgreSQL, a folder of files for processes on one machine,
//! or memory for tests; `JOBS_URL` names it.
//!
//! | word | meaning |
//! |---|---|
//! | job | an annotated function, or a [`Job`] built at run time: a key, a schedule, a policy |
//! | tick | one scheduled instant of a job, in UTC: the same on every server |
//! | server | one running scheduler, what [`start_all`] returns |
//! | claim | the attempt to become the runner of a tick |
//! | mark | the newest tick of a job that was claimed or skipped |
//! | lease | the lock while it is held: token, fence, expiry |
//! | fence | a number that grows from one lease of a key to the next |
//! | run | one execution of a job under a lease; it ends in an [outcome](history::RunOutcome) and leaves a [record](history::RunRecord) |
//!
//! # What is promised, and what is not
//!
//! The promises, what they rest on and their limits are on one page: [`guide::guarantees`].
//!
//! # Where to read on
//!
//! | question | page | items |
//! |---|---|---|
//! | Which arguments does a job take? | [`guide::arguments`] | [`singleton_job`], [`Job`], [`Run`], [`State`] |
//! | What happens in each failure, and how long does it take? | [`guide::failures`] | [`schedule`] |
//! | Which store, and how is it configured? | [`guide::stores`], [`guide::permissions`] | [`store`] |
//! | What must be set before a deploy? | [`guide::deploying`] | [`builder`], [`Builder`] |
//! | How is a fleet watched and operated? | [`guide::operating`] | [`Jobs`], [`Health`], [`events`], [`history`], [`fleet`], [`diagnosis`] |
//! | How is a fleet shown to people? | [`guide::dashboard`] | [`dashboard`] |
//! | How is something locked that is not on a schedule? | [`guide::locks`] | [`locked`], [`lock()`], [`semaphore()`], [`once()`], [`leader()`], [`locks`] |
//! | How are jobs tested? | [`guide::testing`] | [`testing`], [`assert_locked`] |
//! | What does it cost? | [`guide::performance`] | |
//!
//! # Following a tick through the source
//!
//! [`singleton_job`] → `job/registry.rs` → `tick/timetable.rs` → `tick/scheduler.rs` → `tick/batch.rs`, all ticks that are due
//! together → `tick/mod.rs`, the page that shows a whole tick → `tick/claim/mod.rs` → `lease/pending.rs` → `store/client/mod.rs` (look, decide, swap; the rules are pure
//! functions in [`store::decide`]) → `tick/execute.rs` → `tick/try_task.rs`, which polls the function, while
//! `lease/mod.rs` keeps the lease alive and at the end releases it and records the run, again by
//! `store/client/mod.rs` → `tick/report.rs` → `observe/log.rs`.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The attribute's code names `::jobs`; this lets the crate's own documentation and tests use it.
#[allow(unused_extern_crates, reason = "named by generated code, not by ours")]
extern crate self as jobs;

mod job;
mod lease;
pub mod locks;
mod observe;
mod server;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tick;
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
pub use locks::functions::{leader, lock, once, semaphore};
#[cfg(feature = "dashboard")]
pub use observe::dashboard;
pub use observe::health::Health;
#[cfg(feature = "log-tail")]
pub use observe::log_tail::LogTail;
pub use server::builder::{Builder, builder};
pub use server::error::{JobProblem, OperateError, StartError};
pub use server::handle::{Closed, Jobs};
pub use server::operate::manual_run::RunNow;
pub use server::operate::{CancelOutcome, Cancelling, Pausing, PausingAll};
pub use singleton_jobs_macros::{locked, singleton_job};
pub use singleton_jobs_policy::{ParseTimestampError, Timestamp, jiff};
pub use tokio_util::sync::CancellationToken;
pub use util::clock;
pub use util::duration::IntoDuration;

/// What happens on a server, as values: see [`Jobs::events`], [`Builder::on_event`], and the hooks of a [`JobBuilder`].
pub mod events {
    pub use crate::job::hooks::{EndedRun, OverdueTick};
    pub use crate::observe::event::{Event, EventKind, Events, RunRef, SkipReason};
    pub use crate::store::decide::messages::Taken;
}

/// The runs and skipped ticks of a job: see [`Jobs::history`](crate::Jobs::history).
pub mod history {
    pub use crate::store::decide::messages::{
        CurrentRun, FailedTry, Gap, History, Progress, RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord,
        Stats, Trigger,
    };
}

/// The servers, and what they hold: see [`Jobs::servers`](crate::Jobs::servers) and [`Jobs::locks`](crate::Jobs::locks).
pub mod fleet {
    pub use crate::job::manifest::{Manifest, ManifestJob};
    pub use crate::observe::fleet::json::JSON_FORMAT;
    pub use crate::observe::fleet::load::{LoadCell, LoadMap};
    pub use crate::observe::fleet::overview::{DoneWork, JobAlert, JobOverview, JobVariant, Overview};
    pub use crate::observe::fleet::ticks::{TickFate, TickReport, Ticks};
    pub use crate::observe::fleet::timeline::{RunOverlap, RunTimeline, ServerLane, TickGap, TimelineRun};
    pub use crate::store::decide::messages::{
        Action, ActionKind, Forgotten, HeldLock, Holder, JobInfo, LeaseKind, Pause, RunningInfo, ServerInfo,
    };
}

/// Problems with the store or the jobs: see [`Jobs::diagnose`](crate::Jobs::diagnose).
pub mod diagnosis {
    pub use crate::observe::finding::{Finding, FindingKind, Severity};
}

/// Transactions of the application that commit only under a lease: see [`Run::finish`] and [effects exactly once](guide::effects).
pub mod transaction {
    pub use crate::lease::finish_error::FinishError;
    pub use crate::lease::transaction::Transaction;
}

/// Schedules and policies.
pub mod schedule {
    pub use singleton_jobs_policy::{
        Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule, ScheduleError,
    };
}

// In the repository a page's links are relative paths, defined at its end. The definitions here come first and take precedence.
/// The guide: one page for each question about jobs, stores and servers.
pub mod guide {
    /// [Failures]: crate::guide::failures
    /// [deploying]: crate::guide::deploying#environment-variables
    /// [hooks]: crate::guide::operating#hooks
    /// [`Job`]: crate::Job
    /// [`Run`]: crate::Run
    #[doc = include_str!("docs/arguments.md")]
    pub mod arguments {}

    // Its examples need the feature.
    #[cfg(feature = "dashboard")]
    /// [`Authentication`]: crate::dashboard::Authentication
    /// [operating]: crate::guide::operating#calls
    /// [stores]: crate::guide::stores
    #[doc = include_str!("docs/dashboard.md")]
    pub mod dashboard {}

    /// [Redis]: crate::store::redis#what-a-failover-can-lose
    /// [permissions]: crate::guide::permissions
    /// [probes]: crate::guide::operating#probes
    /// [wiped]: crate::guide::failures#the-store-is-wiped
    #[doc = include_str!("docs/deploying.md")]
    pub mod deploying {}

    /// [`once`]: crate::locks::Once
    #[doc = include_str!("docs/effects.md")]
    pub mod effects {}

    /// [Guarantees]: crate::guide::guarantees
    #[doc = include_str!("docs/failures.md")]
    pub mod failures {}

    /// [effects]: crate::guide::effects
    #[doc = include_str!("docs/guarantees.md")]
    pub mod guarantees {}

    /// [guarantees]: crate::guide::guarantees#limits
    /// [operating]: crate::guide::operating#calls
    /// [performance]: crate::guide::performance#round-trips
    #[doc = include_str!("docs/locks.md")]
    pub mod locks {}

    /// [dashboard]: crate::guide::dashboard
    /// [`EventKind`]: crate::events::EventKind
    /// [`Health`]: crate::Health
    #[doc = include_str!("docs/operating.md")]
    pub mod operating {}

    #[doc = include_str!("docs/performance.md")]
    pub mod performance {}

    /// [effects]: crate::guide::effects
    #[doc = include_str!("docs/permissions.md")]
    pub mod permissions {}

    /// [MySQL]: crate::store::mysql
    /// [PostgreSQL]: crate::store::postgres
    /// [Redis]: crate::store::redis
    /// [SQLite]: crate::store::sqlite
    /// [performance]: crate::guide::performance#build
    /// [`Store`]: crate::store::Store
    /// [testing]: crate::guide::testing#a-store-of-your-own
    #[doc = include_str!("docs/stores.md")]
    pub mod stores {}

    /// [`jobs::testing`]: crate::testing
    #[doc = include_str!("docs/testing.md")]
    pub mod testing {}
}

/// Starts every annotated job of this program on the configured store. The short form of
/// `jobs::builder().start_all()`.
pub async fn start_all() -> Result<Jobs, StartError> {
    builder().start_all().await
}

/// Returns the annotated jobs of this program, with their schedules and settings. The short form of `jobs::builder().manifest()`.
pub fn manifest() -> Result<fleet::Manifest, StartError> {
    builder().manifest()
}

/// Connects to a store without scheduling jobs: for a program that only uses [locks], or that only operates the
/// jobs of other servers. The short form of `jobs::builder().without_jobs().url(url).start_all()`.
///
/// ```no_run
/// # async fn operate() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = jobs::connect("redis://localhost:6379").await?;
/// println!("{:?}", jobs.run_now("import-products").await?);
/// jobs.shutdown().await;
/// # Ok(()) }
/// ```
pub async fn connect(url: impl Into<String>) -> Result<Jobs, StartError> {
    builder().without_jobs().url(url).start_all().await
}

/// For a worker that does nothing else: starts every annotated job, waits for SIGTERM or ctrl-c, shuts down.
pub async fn run_until_signal() -> Result<(), StartError> {
    builder().run_until_signal().await
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../macros/src/singleton_job.md")]
struct SingletonJob;

#[cfg(doctest)]
#[doc = include_str!("../../macros/src/locked.md")]
struct Locked;
