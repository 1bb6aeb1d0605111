//! Why a lock is not there, or no longer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::fleet::Holder;
use crate::store::StoreError;

/// Why a lock was not acquired, or did not last.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody held it until the wait was over.
    Held {
        /// The lock's key.
        key: String,
        /// How long this caller waited.
        waited: Duration,
        /// Who held it, when the store was last asked.
        holder: Holder,
    },
    /// The lock was held, and its lease could not be proved any longer: the store was away, or somebody broke the lock.
    Lost {
        /// The lock's key.
        key: String,
    },
    /// The store did not answer, or refused. Nothing was started.
    Store {
        /// The lock's key.
        key: String,
        /// How it failed.
        error: StoreError,
    },
    /// The key, or one of the options, cannot be used as it is written.
    Invalid {
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The scheduler, which keeps locks alive, is shutting down or has ended.
    Ended {
        /// The lock's key.
        key: String,
    },
    /// `jobs::lock` and its like were called where no scheduler is at hand, or several are.
    NoInstance {
        /// The lock's key.
        key: String,
        /// How many were started in this process.
        started: usize,
    },
}

impl LockError {
    pub(crate) fn lost(key: &str) -> Self {
        Self::Lost { key: key.to_owned() }
    }

    pub(crate) fn ended(key: &str) -> Self {
        Self::Ended { key: key.to_owned() }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { key, waited, holder } => {
                write!(f, "the lock \"{key}\" is held")?;
                match &holder.server {
                    Some(server) => write!(f, " by {server}")?,
                    None => f.write_str(" by another program")?,
                }
                if let Some(left) = holder.remaining {
                    write!(f, " for {:.1} s unless extended", left.as_secs_f32())?;
                }
                let waited = waited.as_secs_f32();
                write!(
                    f,
                    "; it did not come free in {waited:.1} s: try again later, or wait longer with `wait`"
                )
            }
            Self::Lost { key } => write!(
                f,
                "the lock \"{key}\" was lost: its lease could not be proved any longer, and somebody else may hold it \
                 now. Look for a store that was away, or for code that went without an await for longer than the ttl; \
                 then do the work again"
            ),
            Self::Store { key, error } => write!(f, "the lock \"{key}\" cannot be decided: {error}"),
            Self::Invalid { problem } => f.write_str(problem),
            Self::Ended { key } => write!(
                f,
                "the lock \"{key}\" cannot be held: the scheduler is shutting down or has ended; keep the handle that \
                 `start_all` returned for as long as locks are used"
            ),
            Self::NoInstance { key, started: 0 } => write!(
                f,
                "the lock \"{key}\" has no store: no scheduler was started in this process; call \
                 `jobs::builder().start_all()` first, or `jobs::builder().without_jobs().start_all()` if there are no \
                 jobs, and keep the handle"
            ),
            Self::NoInstance { key, started } => write!(
                f,
                "it is not clear which store the lock \"{key}\" is on: {started} schedulers were started in this process; \
                 call the method of the one that is meant, as in `handle.lock(…)`, or wrap the code in `handle.scope(…)`"
            ),
        }
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store { error, .. } => Some(error),
            _ => None,
        }
    }
}
