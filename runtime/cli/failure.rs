//! How a command ends: its answer, or why there is none, and the exit code of each.

use std::fmt;
use std::process::ExitCode;

use jobs::{OperateError, StartError};

/// The answer of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Good,
    /// The command worked, and what it found is bad: a failed run, a problem.
    Bad,
}

impl Answer {
    pub(crate) fn good_if(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Good => Self::SUCCESS,
            Answer::Bad => Self::from(1),
        }
    }
}

/// Why a command has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something in the call is wrong.
    Usage(String),
    /// The store could not be used.
    Start(StartError),
    /// The request failed.
    Operate(OperateError),
    /// No job with this key.
    NoJob(String),
    /// What was asked for does not exist.
    NotFound(String),
    /// A file or address of this machine could not be used.
    System(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::NotFound(why) | Self::System(why) => f.write_str(why),
            Self::NoJob(key) => write!(f, "no job \"{key}\""),
            Self::Start(StartError::Config { source, message }) => match source.as_str() {
                "the builder's `without_jobs`" => f.write_str(
                    "no store is named; pass --url, or set JOBS_URL, to the URL that the servers use: \
                     redis://localhost:6379 or file:///var/lib/shop/jobs, for example",
                ),
                "the builder's `url`" => write!(f, "--url (or JOBS_URL): {message}"),
                "the builder's `namespace`" => write!(f, "--namespace (or JOBS_NAMESPACE): {message}"),
                _ => write!(f, "{source}: {message}"),
            },
            Self::Start(StartError::Store { error, .. }) => write!(f, "{error}"),
            Self::Start(error) => write!(f, "{error}"),
            Self::Operate(OperateError::Invalid { setting, problem }) => {
                let option = if *setting == "lasting" { "for" } else { setting };
                write!(f, "--{option}: {problem}")
            }
            Self::Operate(error) => write!(f, "{error}"),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::NoSuchJob { key } => Self::NoJob(key),
            error => Self::Operate(error),
        }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(_)
            | Failure::Start(StartError::Config { .. })
            | Failure::Operate(OperateError::Invalid { .. }) => Self::from(2),
            Failure::Start(_) | Failure::Operate(_) | Failure::System(_) => Self::from(3),
            Failure::NoJob(_) | Failure::NotFound(_) => Self::from(4),
        }
    }
}
