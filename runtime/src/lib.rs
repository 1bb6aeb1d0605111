//! TODO front page

extern crate self as jobs;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod clock;
mod extract;
mod job;
mod outcome;
mod registry;
mod run;
pub mod store;

pub use extract::{FromRun, State};
pub use job::{Job, JobBuilder};
pub use outcome::{BoxError, IntoOutcome, JobError};
pub use run::Run;
pub use singleton_jobs_macros::singleton_job;
pub use singleton_jobs_policy::{
    Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule, ScheduleError, Timestamp,
};
