//! The reasons why a transaction cannot commit under a lease.

use std::error::Error;
use std::fmt;

use crate::BoxError;

/// The reason why a transaction cannot commit under a lease. The transaction is rolled back, or can only be rolled back.
#[derive(Debug)]
#[non_exhaustive]
pub enum FinishError {
    /// A later run or holder has the key: nothing of this one may be written any more.
    Superseded {
        /// The key.
        key: String,
        /// The fence of the run or lock.
        fence: i64,
    },
    /// The work of this run was committed before: by an earlier try, or by a commit whose answer was lost.
    AlreadyFinished {
        /// The key.
        key: String,
        /// The fence of the run.
        fence: i64,
    },
    /// The transaction does not see the lease: it is on another database than the store, or it is a savepoint of another
    /// transaction, which could be rolled back alone.
    UnknownLease {
        /// The key.
        key: String,
        /// The fence of the run or lock.
        fence: i64,
    },
    /// The database has ended the transaction before, as after a deadlock or a statement that commits by itself.
    NoTransaction {
        /// The key.
        key: String,
    },
    /// The server can no longer prove the lease: another one may take over.
    LeaseLost {
        /// The key.
        key: String,
        /// The fence of the run or lock.
        fence: i64,
    },
    /// The store is not a database with transactions.
    NoDatabase {
        /// The store.
        store: String,
    },
    /// Slots of a semaphore are held by several callers at a time, so no transaction can check one.
    Semaphore {
        /// The key.
        key: String,
    },
    /// The server has ended.
    ServerEnded {
        /// The key.
        key: String,
    },
    /// The database returned this error.
    Database(BoxError),
}

impl fmt::Display for FinishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded { key, fence } => write!(
                f,
                "[{key}] fence {fence} is not the newest: another server has taken over; the transaction is rolled back"
            ),
            Self::AlreadyFinished { key, fence } => write!(
                f,
                "[{key}] the work of fence {fence} is committed already; this transaction is rolled back"
            ),
            Self::UnknownLease { key, fence } => write!(
                f,
                "[{key}] the transaction does not see the lease with fence {fence}; begin it on the database that is the store, and \
                 do not call this in a savepoint"
            ),
            Self::NoTransaction { key } => write!(
                f,
                "[{key}] the database has ended the transaction already; repeat all of it, without statements that commit by themselves"
            ),
            Self::LeaseLost { key, fence } => write!(
                f,
                "[{key}] the lease with fence {fence} is lost: the store was unreachable for too long, or the process was stopped"
            ),
            Self::NoDatabase { store } => write!(
                f,
                "the store {store} is not a database with transactions; use PostgreSQL, MySQL, MariaDB or SQLite as the store"
            ),
            Self::Semaphore { key } => {
                write!(f, "[{key}] a slot of a semaphore cannot be checked in a transaction; use a lock")
            }
            Self::ServerEnded { key } => {
                write!(f, "[{key}] the server of this run or lock has ended, and its lease with it")
            }
            Self::Database(error) => write!(f, "failed to check the lease in the transaction: {error}"),
        }
    }
}

impl Error for FinishError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database(error) => Some(&**error),
            _ => None,
        }
    }
}

impl FinishError {
    pub(crate) fn database(error: impl Into<BoxError>) -> Self {
        Self::Database(error.into())
    }
}
