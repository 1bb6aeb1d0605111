//! Classifies the errors of SQLite, and gives advice.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::StoreErrorKind::{self, Full, Refused, TimedOut, Unreachable, Unreadable};

pub(super) type SqliteResult<T> = Result<T, SqliteError>;

/// The error of one request, before the store adds the method and its location.
#[derive(Debug)]
pub(super) struct SqliteError {
    pub(super) kind: StoreErrorKind,
    pub(super) cause: String,
}

impl SqliteError {
    pub(super) fn new(kind: StoreErrorKind, cause: impl Into<String>) -> Self {
        Self { kind, cause: cause.into() }
    }

    pub(super) fn unreadable(problem: impl Into<String>) -> Self {
        Self::new(Unreadable, problem)
    }

    /// Adds what failed.
    pub(super) fn during(self, circumstances: &str) -> Self {
        Self { cause: format!("{circumstances}: {}", self.cause), ..self }
    }

    /// The error for a database that is no longer at its path.
    pub(super) fn moved(path: &Path) -> Self {
        let path = path.display();
        Self::new(
            Unreachable,
            format!(
                "{path} was removed, or replaced by another file, while it was open; another process may use the other file \
                 already: restore it, or restart all servers"
            ),
        )
    }

    /// The error for a database whose write-ahead log was removed while it was open.
    pub(super) fn log_removed(path: &Path) -> Self {
        let path = path.display();
        Self::new(
            Unreachable,
            format!(
                "{path}-wal or {path}-shm was removed or replaced while the database was open, and with it writes that were \
                 acknowledged; another process may use other files already: restart all servers, and never remove these files"
            ),
        )
    }

    /// Whether another connection was in the way: nothing was applied.
    pub(super) fn is_busy(&self) -> bool {
        self.kind == TimedOut
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        // A statement that SQLite cannot compile: its whole text would be in the message.
        let (code, message) = match &error {
            rusqlite::Error::SqlInputError { error, msg, .. } => (Some(error.code), msg.clone()),
            _ => (error.sqlite_error_code(), error.to_string()),
        };
        let (kind, advice) = match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
                TimedOut,
                "another process has kept the database locked: a stopped one, one with a long transaction, or a backup that \
                 takes an exclusive lock (`fuser` shows which); continue or end it",
            ),
            Some(ErrorCode::DiskFull) => (Full, ""),
            Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => (Refused, ""),
            Some(ErrorCode::ReadOnly) => (
                Refused,
                "this process needs write permission on the database, on its folder, and on the files beside it that end in \
                 -wal and -shm",
            ),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
                Unreadable,
                "restore it from a backup, or remove it to reset all jobs (their last ticks may then run again)",
            ),
            // The statements are always the same: the tables are others.
            Some(ErrorCode::Unknown) => (
                Unreadable,
                "the tables were made by another version of this crate, or by another program: use a database of its own",
            ),
            Some(ErrorCode::CannotOpen) => {
                (Unreachable, "check that its folder exists, and that this process may write there")
            }
            _ => (Unreachable, ""),
        };
        let separator = if advice.is_empty() { "" } else { "; " };
        Self { kind, cause: format!("{message}{separator}{advice}") }
    }
}
