//! Scheduled jobs that run on one server out of many.

// The attribute's code names `::jobs`; this lets the crate's own documentation and tests use it.
#[allow(unused_extern_crates, reason = "named by generated code, not by ours")]
extern crate self as jobs;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod builder;
mod claim;
pub mod clock;
mod config;
mod error;
mod execute;
mod extract;
mod handle;
mod health;
mod host;
mod job;
mod lease;
mod outcome;
mod proof;
mod registry;
mod report;
mod roster;
mod run;
mod running;
mod scheduler;
mod server;
mod signal;
pub mod store;
mod store_time;
mod tick;

#[cfg(test)]
mod tests;

pub use builder::{Builder, builder};
pub use error::{JobProblem, StartError};
pub use extract::{FromRun, State};
pub use handle::{Closed, Jobs};
pub use health::Health;
pub use job::{Job, JobBuilder};
pub use outcome::{BoxError, IntoOutcome, JobError};
pub use run::Run;
pub use singleton_jobs_macros::singleton_job;
pub use singleton_jobs_policy::{
    Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule, ScheduleError, Timestamp,
};
pub use store::{History, RunOutcome, RunRecord, Skip, SkipRecord, Store, StoreError};

/// Starts every annotated job of this program on the configured store. The short form of
/// `jobs::builder().start_all()`.
pub async fn start_all() -> Result<Jobs, StartError> {
    builder().start_all().await
}

/// For a worker that does nothing else: starts every annotated job, waits for SIGTERM or ctrl-c, shuts down.
pub async fn run_until_signal() -> Result<(), StartError> {
    builder().run_until_signal().await
}
