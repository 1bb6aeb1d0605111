//! Errors of locks.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::fleet::Holder;
use crate::store::StoreError;

/// The reason why a lock was not acquired, or was lost.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Another caller held the lock until the wait was over.
    Held {
        /// The lock's key.
        key: String,
        /// How long this caller waited.
        waited: Duration,
        /// The holder, as of the last reply of the store.
        holder: Holder,
    },
    /// The lock was held, but its lease could not be extended in time, or an operator
    /// [broke](crate::Jobs::break_lock) the lock.
    Lost {
        /// The lock's key.
        key: String,
    },
    /// The store did not reply, or refused. If the lock was to be acquired, nothing was started.
    Store {
        /// The lock's key.
        key: String,
        /// The operation that failed.
        operation: LockOperation,
        /// The error of the store.
        error: StoreError,
    },
    /// The key or an option is invalid.
    Invalid {
        /// The problem, and how to fix it.
        problem: String,
    },
    /// The server, which keeps locks alive, is shutting down or has shut down.
    ShutDown {
        /// The lock's key.
        key: String,
    },
    /// [`jobs::lock`](crate::lock()) or another free function was called where no server is the default one: none was
    /// started in this process, or more than one.
    NoServer {
        /// The lock's key.
        key: String,
        /// The number of servers in this process.
        started: usize,
    },
}

/// An operation on a lock that the store takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockOperation {
    /// Acquiring the lock.
    Acquire,
    /// Extending or confirming it.
    Extend,
    /// Releasing it.
    Release,
    /// Listing the holders of a semaphore.
    List,
}

impl LockError {
    pub(crate) fn lost(key: &str) -> Self {
        Self::Lost { key: key.to_owned() }
    }

    pub(crate) fn shut_down(key: &str) -> Self {
        Self::ShutDown { key: key.to_owned() }
    }

    pub(crate) fn store(operation: LockOperation, key: &str, error: StoreError) -> Self {
        Self::Store { key: key.to_owned(), operation, error }
    }
}

impl fmt::Display for LockOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire lock",
            Self::Extend => "extend lock",
            Self::Release => "release lock",
            Self::List => "list holders of",
        })
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { key, waited, holder } => {
                write_held(f, key, holder)?;
                let waited = waited.as_secs_f32();
                write!(f, "; waited {waited:.1} s; retry later, or set a longer `wait`")
            }
            Self::Lost { key } => write!(
                f,
                "lost lock \"{key}\": its lease was not extended in time or was broken, and another server may hold it \
                 now; check that the store is reachable and that the code reaches an `await` within the ttl, then repeat \
                 the work"
            ),
            Self::Store { key, operation, error } => write!(f, "failed to {operation} \"{key}\": {error}"),
            Self::Invalid { problem } => f.write_str(problem),
            Self::ShutDown { key } => write!(
                f,
                "failed to hold lock \"{key}\": the server is shutting down or has shut down; keep the handle that \
                 `start_all` returned for as long as locks are used"
            ),
            Self::NoServer { key, started: 0 } => write!(
                f,
                "failed to find a store for lock \"{key}\": no server was started in this process; call \
                 `jobs::builder().start_all()` first, or `jobs::builder().without_jobs().start_all()` if there are no \
                 jobs, and keep the handle"
            ),
            Self::NoServer { key, started } => write!(
                f,
                "failed to choose a store for lock \"{key}\": {started} servers were started in this process; call the \
                 method of one of them, as in `handle.lock(…)`, or wrap the code in `handle.scope(…)`"
            ),
        }
    }
}

/// Writes who holds a lock, and for how long.
pub(super) fn write_held(f: &mut fmt::Formatter<'_>, key: &str, holder: &Holder) -> fmt::Result {
    let server = holder.server.as_deref().unwrap_or("another program");
    write!(f, "lock \"{key}\" is held by {server}")?;
    match holder.remaining {
        Some(remaining) => write!(f, " for {:.1} s unless extended", remaining.as_secs_f32()),
        None => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::NotRun;
    use crate::store::StoreErrorKind;

    fn refused() -> LockError {
        let error =
            StoreError::new(StoreErrorKind::Unreachable, "claim", "redis://cache:6379", "connection refused");
        LockError::store(LockOperation::Acquire, "payment:7", error)
    }

    #[test]
    fn message_of_a_store_error_names_the_operation_the_key_and_the_cause() {
        let message = refused().to_string();
        assert!(message.starts_with("failed to acquire lock \"payment:7\": "), "{message}");
        assert!(
            message.contains("connection refused") && message.contains("redis://cache:6379"),
            "{message}"
        );
    }

    #[test]
    fn message_of_a_held_lock_names_the_holder_and_the_wait() {
        let remaining = Some(Duration::from_millis(3210));
        let holder = Holder { server: Some("host-1".to_owned()), since: None, remaining };
        let error = LockError::Held { key: "payment:7".to_owned(), waited: Duration::from_secs(5), holder };
        assert_eq!(
            error.to_string(),
            "lock \"payment:7\" is held by host-1 for 3.2 s unless extended; waited 5.0 s; retry later, or set a longer \
             `wait`"
        );
    }

    #[test]
    fn store_error_is_the_source_of_lock_errors() {
        fn source(error: &dyn Error) -> Option<StoreErrorKind> {
            Some(error.source()?.downcast_ref::<StoreError>()?.kind())
        }
        assert_eq!(source(&refused()), Some(StoreErrorKind::Unreachable));
        assert_eq!(source(&NotRun::from(refused())), Some(StoreErrorKind::Unreachable));
        assert_eq!(
            source(&crate::locks::OnceError::<String>::Lock(refused())),
            Some(StoreErrorKind::Unreachable)
        );
        assert_eq!(source(&LockError::lost("payment:7")), None);
    }
}
