//! Why a scheduler did not start.

use std::error::Error;
use std::fmt;

use crate::diagnosis::Finding;
use crate::store::StoreError;

/// Why a scheduler did not start. Nothing is scheduled then.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// `start_all` was called outside a Tokio runtime, so there is none to run jobs on.
    NoRuntime,
    /// No function is annotated, none was added on the builder, or none was linked.
    NoJobs,
    /// No store was configured, in a release build.
    NoStore,
    /// Jobs that cannot be scheduled, all of them.
    Jobs(Vec<JobProblem>),
    /// Something in the configuration cannot be used.
    Config {
        /// Where it was set: a variable's name, or the builder's method.
        source: String,
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// The store did not answer, or refused.
    Store {
        /// Where its address came from: a variable's name, or the builder's method.
        source: String,
        /// How it failed.
        error: StoreError,
    },
    /// The store answers, and jobs could not run on it.
    Unfit {
        /// Where its address came from: a variable's name, or the builder's method.
        source: String,
        /// Where it is, without a password.
        store: String,
        /// Why they could not, and what to do: errors only.
        findings: Vec<Finding>,
    },
    /// The operating system refused the scheduler's thread.
    Thread(std::io::Error),
    /// The scheduler started, and could not go on: only
    /// [`run_until_signal`](crate::Builder::run_until_signal) waits long enough to say so.
    Ended,
}

/// A problem with one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProblem {
    /// The job's key.
    pub key: String,
    /// The file and line of the job.
    pub place: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for JobProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, place, message } = self;
        write!(f, "[{key}] at {place}: {message}")
    }
}

impl Error for JobProblem {}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => f.write_str(
                "not inside a Tokio runtime: call this from an async fn under `#[tokio::main]`, or inside \
                 `runtime.block_on(…)`",
            ),
            Self::NoJobs => f.write_str(
                "there are no jobs: annotate an async fn with `#[singleton_job(…)]` or add one with \
                 `jobs::builder().job(…)`. A job in a library crate is linked only if this program mentions that \
                 crate: `use that_crate as _;`. A program that only uses locks, or only operates other servers' \
                 jobs, calls `jobs::builder().without_jobs()`",
            ),
            Self::NoStore => f.write_str(
                "no store is configured: set JOBS_URL, as in JOBS_URL=redis://localhost:6379, or call \
                 `jobs::builder().url(…)`. Without a shared store every server would run every job. For a service \
                 on one machine choose the embedded store with `jobs::builder().or_embedded()`",
            ),
            Self::Jobs(problems) => {
                let what = if problems.len() == 1 { "a job" } else { "jobs" };
                write!(f, "{what} cannot be scheduled:")?;
                for problem in problems {
                    write!(f, "\n  {problem}")?;
                }
                Ok(())
            }
            Self::Config { source, message } => write!(f, "{source}: {message}"),
            Self::Store { source, error } => write!(
                f,
                "the store from {source} cannot be used: {error}. To start without it and keep trying, call \
                 `jobs::builder().start_degraded()`"
            ),
            Self::Unfit { source, store, findings } => {
                let why: Vec<_> = findings.iter().map(ToString::to_string).collect();
                let why = why.join("; ");
                write!(
                    f,
                    "the store from {source}, {store}, cannot be used: {why}. To start all the same, call \
                     `jobs::builder().start_degraded()`"
                )
            }
            Self::Ended => f.write_str("the scheduler could not go on; the log says why. Restart the process"),
            Self::Thread(error) => write!(f, "the scheduler's thread could not be started: {error}"),
        }
    }
}

/// No sources: each message is complete, and reporters that follow sources would say it twice.
impl Error for StartError {}
