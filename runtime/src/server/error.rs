//! The errors of a start, and of an operator's calls.

use std::error::Error;
use std::fmt;

use super::checked_jobs::known_keys;
use crate::diagnosis::Finding;
use crate::store::StoreError;

/// The error of a start. Nothing is scheduled then.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// `start_all` was called outside a Tokio runtime, so there is none to run jobs on.
    NoRuntime,
    /// No function is annotated, none was added on the builder, or none was linked.
    NoJobs,
    /// The program lacks jobs that [`expect_jobs`](crate::Builder::expect_jobs) names.
    MissingJobs {
        /// The keys of the missing jobs.
        missing: Vec<String>,
        /// The keys of the jobs that the program has.
        found: Vec<String>,
    },
    /// No store was configured, in a release build.
    NoStore,
    /// Jobs that cannot be scheduled, all of them.
    Jobs(Vec<JobProblem>),
    /// A setting is invalid.
    Config {
        /// Where it was set: a variable's name, or the builder's method.
        source: String,
        /// The problem, and what to write instead.
        message: String,
    },
    /// The store is unreachable, or refused a request.
    Store {
        /// Where its address came from: a variable's name, or the builder's method.
        source: String,
        /// The error of the last attempt.
        error: StoreError,
    },
    /// The store answers, but jobs cannot run on it.
    Unfit {
        /// Where its address came from: a variable's name, or the builder's method.
        source: String,
        /// Its location, without a password.
        store: String,
        /// The reasons, and what to do: errors only.
        findings: Vec<Finding>,
    },
    /// The operating system refused the scheduler's thread.
    Thread(std::io::Error),
    /// The scheduler started and failed later: returned only by
    /// [`run_until_signal`](crate::Builder::run_until_signal).
    Ended,
}

/// A problem of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProblem {
    /// The job's key.
    pub key: String,
    /// The file and line of the job.
    pub place: String,
    /// The problem, and what to do.
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
                 jobs, calls `jobs::connect(url)`",
            ),
            Self::MissingJobs { missing, found } => {
                let missing = missing.join(", ");
                let known = known_keys(found.iter().map(String::as_str));
                write!(
                    f,
                    "missing jobs: {missing}; {known}. A job in a library crate is linked only if this program mentions that \
                     crate: `use that_crate as _;`. If a job was renamed or removed, change `expect_jobs`"
                )
            }
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
            Self::Store { source, error } => {
                write!(f, "the store from {source} cannot be used: {error}")?;
                // Waiting does not correct a password.
                if error.kind().is_outage() {
                    f.write_str(
                        ". To start without it and keep trying, call `jobs::builder().allow_degraded_start()`",
                    )?;
                }
                Ok(())
            }
            Self::Unfit { source, store, findings } => {
                let why: Vec<_> = findings.iter().map(ToString::to_string).collect();
                let why = why.join("; ");
                write!(
                    f,
                    "the store from {source}, {store}, cannot be used: {why}. To start nevertheless, call \
                     `jobs::builder().allow_degraded_start()`"
                )
            }
            Self::Ended => f.write_str("the scheduler has failed, for the reason in the log; restart the process"),
            Self::Thread(error) => write!(f, "failed to start the scheduler's thread: {error}"),
        }
    }
}

/// The message contains the error of the store and of the system, so the source is the next one: reporters that follow
/// sources would print it twice.
impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store { error, .. } => error.source(),
            Self::Thread(error) => error.source(),
            _ => None,
        }
    }
}

impl StartError {
    /// The error of an invalid setting of the builder.
    pub(crate) fn builder(method: &str, message: impl Into<String>) -> Self {
        Self::Config { source: format!("the builder's `{method}`"), message: message.into() }
    }
}

/// The error of an operator's call: [`Jobs::history`](crate::Jobs::history), [`pause`](crate::Jobs::pause),
/// [`run_now`](crate::Jobs::run_now) and so on.
#[derive(Debug)]
#[non_exhaustive]
pub enum OperateError {
    /// No job with this key is known: not on this server, not on the store, not on another server.
    NoSuchJob {
        /// The key.
        key: String,
    },
    /// A setting of the call cannot be used.
    Invalid {
        /// The method that set it.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// This server's scheduler shuts down or has ended, so it can neither start a run nor reach the store.
    ShuttingDown,
    /// The store answered, but the operation was not complete in time. Nothing was started; try again.
    TimedOut {
        /// What took too long.
        reason: &'static str,
    },
    /// The requested run has ended on another server, and the store no longer keeps its record:
    /// [`history_limit`](crate::Builder::history_limit) is too low.
    RecordGone {
        /// The job's key.
        key: String,
    },
    /// The store is unreachable, or refused the request.
    Store(StoreError),
}

impl fmt::Display for OperateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchJob { key } => write!(
                f,
                "no job \"{key}\" on this server, on the store or on another server; check the key's spelling, and the \
                 namespace"
            ),
            Self::Invalid { setting, problem } => write!(f, "`{setting}` {problem}"),
            Self::ShuttingDown => f.write_str("this server is shutting down; call another one"),
            Self::TimedOut { reason } => write!(f, "timed out: {reason}; try again"),
            Self::RecordGone { key } => {
                write!(f, "the run of \"{key}\" has ended, and its record is gone; raise `history_limit`")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// The message of a store's error is this error's message, and its source is this error's source.
impl Error for OperateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            _ => None,
        }
    }
}

impl From<StoreError> for OperateError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
