//! Classifies the errors of the client and the server, and gives advice.

use std::io;
use std::time::Duration;

use mysql_async::{DriverError, Error, ServerError};

use crate::store::StoreError;
use crate::store::StoreErrorKind::{
    self, Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable, Untrusted,
};
use crate::store::net::borrowed::POOL_CLOSED;
use crate::store::net::connection::ConnectionFault;
use crate::store::net::errors;
use crate::store::net::sql_rows::UnreadableRow;
use crate::store::net::sql_server::SqlError;
#[cfg(feature = "tls")]
use crate::store::net::tls;

pub(super) type MysqlResult<T> = Result<T, MysqlError>;

/// The error of one exchange. Never contains a password: neither the client nor the server repeats it.
#[derive(Clone, Debug)]
pub(crate) struct MysqlError {
    pub(super) kind: StoreErrorKind,
    pub(super) message: String,
    /// The server's number of the error.
    code: Option<u16>,
}

/// No such table.
const MISSING: u16 = 1146;
/// The table cannot be created.
const CANNOT_CREATE: u16 = 1005;
/// The server is read-only: by its option, by its mode, by the transaction.
const READ_ONLY: [u16; 3] = [1290, 1836, 1792];
/// The connection is in a transaction, which this store has not begun.
const IN_TRANSACTION: u16 = 1568;

impl SqlError for MysqlError {
    fn is_conflict(&self) -> bool {
        self.code.is_some() && self.kind == TimedOut
    }

    fn is_missing(&self) -> bool {
        self.code == Some(MISSING)
    }

    fn is_unreadable(&self) -> bool {
        self.kind == Unreadable
    }

    fn into_store_error(self, step: &'static str, location: &str) -> StoreError {
        StoreError::new(self.kind, step, location, self.message)
    }
}

impl From<UnreadableRow> for MysqlError {
    fn from(row: UnreadableRow) -> Self {
        Self::new(Unreadable, row.explain(OTHER_TABLES))
    }
}

impl MysqlError {
    pub(super) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), code: None }
    }

    pub(super) fn timed_out(what: &str, after: Duration) -> Self {
        Self::new(TimedOut, format!("{what} within {after:?}"))
    }

    /// The error for a server that takes no writes.
    pub(super) fn not_primary() -> Self {
        let message = "the server is read-only (read_only is on), and cannot grant leases: point the URL to the primary";
        Self { code: Some(READ_ONLY[0]), ..Self::new(Refused, message) }
    }

    /// Adds advice.
    pub(super) fn with_advice(self, advice: &str) -> Self {
        Self { message: format!("{}: {advice}", self.message), ..self }
    }

    /// Adds what failed.
    pub(super) fn during(self, circumstances: &str) -> Self {
        Self { message: format!("{circumstances}: {}", self.message), ..self }
    }

    /// Whether a table cannot be created, because the one to which it refers is not complete.
    pub(super) fn is_incomplete_table(&self) -> bool {
        self.code == Some(CANNOT_CREATE)
    }

    /// Whether the server has answered, so that its session can be used again.
    pub(super) fn is_answer(&self) -> bool {
        self.fault() == ConnectionFault::None
    }

    /// Whether the server takes no writes.
    pub(super) fn is_not_primary(&self) -> bool {
        self.code.is_some_and(|code| READ_ONLY.contains(&code))
    }

    /// Makes this error of a commit one that leaves the result unknown, unless the server has rolled back for sure: after a
    /// deadlock, a lock timeout, or a conflict on a cluster, or because it is read-only.
    pub(super) fn during_commit(self) -> Self {
        match (self.code, self.kind) {
            (Some(1213 | 1205 | 1020 | 3101), _) => self,
            _ if self.is_not_primary() => self,
            (_, kind) => {
                let kind = if kind == Unreachable { Unreachable } else { TimedOut };
                Self::new(kind, format!("the commit was not confirmed: {}", self.message))
            }
        }
    }

    pub(super) fn fault(&self) -> ConnectionFault {
        match (self.code, self.kind) {
            (_, Unreachable | Untrusted) | (None, Refused) => ConnectionFault::Broken,
            (Some(code), _) if READ_ONLY.contains(&code) || code == IN_TRANSACTION => ConnectionFault::Broken,
            (None, TimedOut) => ConnectionFault::Silent,
            _ => ConnectionFault::None,
        }
    }
}

impl From<ServerError> for MysqlError {
    fn from(ServerError { code, message, state }: ServerError) -> Self {
        let (kind, advice) = kind_and_advice(code);
        let separator = if advice.is_empty() { "" } else { "; " };
        Self { kind, message: format!("{message} ({code}, {state}){separator}{advice}"), code: Some(code) }
    }
}

impl From<Error> for MysqlError {
    fn from(error: Error) -> Self {
        #[cfg(feature = "tls")]
        if let Some(message) = tls::explain(&error) {
            return Self::new(Untrusted, message);
        }
        match error {
            Error::Server(server) => server.into(),
            Error::Driver(DriverError::NoClientSslFlagFromServer) => Self::new(
                Untrusted,
                "the server does not speak TLS: set ssl_cert and ssl_key there, or write sslmode=disable if the network is \
                 private",
            ),
            // MySQL asks users that it does not have for any kind of password.
            Error::Driver(DriverError::UnknownAuthPlugin { name }) => Self::new(
                Refused,
                format!(
                    "the server asks for a password of the kind {name}, which is not supported; {CREDENTIALS}, or create the user \
                     with caching_sha2_password"
                ),
            ),
            Error::Driver(DriverError::PacketTooLarge) => Self::new(Refused, TOO_LARGE),
            Error::Driver(DriverError::PoolDisconnected) => Self::new(Unreachable, POOL_CLOSED),
            Error::Driver(driver @ DriverError::ConnectionClosed) => {
                Self::new(Unreachable, driver.to_string())
            }
            Error::Driver(driver) => Self::new(Refused, driver.to_string()),
            other => match errors::find(&other) {
                Some(cause) if cause.kind() == io::ErrorKind::TimedOut => {
                    Self::new(TimedOut, other.to_string())
                }
                Some(cause) => match errors::advice(cause) {
                    Some(advice) => Self::new(Unreachable, format!("{cause}: {advice}")),
                    None => Self::new(Unreachable, cause.to_string()),
                },
                None => Self::new(Unreachable, other.to_string()),
            },
        }
    }
}

const OTHER_TABLES: &str = "the tables of this database were made by an older version of this crate, or by another program: \
                                      drop job_note, job_record, job_fence and job_lock, or use another database";

const RUN_SETUP: &str = "have an administrator run what `MysqlStore::setup_sql` returns: it makes what is missing, and grants \
                         what is needed";

const CREDENTIALS: &str = "check user and password in the URL, and the user's host";

const TOO_LARGE: &str = "a record is larger than the server's max_allowed_packet; raise it there";

/// The advice is empty if there is none. Only that another session was in the way is `TimedOut`.
fn kind_and_advice(code: u16) -> (StoreErrorKind, &'static str) {
    match code {
        // Locked, a deadlock (a cluster's conflict is one, too), a duplicate, locked with NOWAIT, changed meanwhile,
        // interrupted, took too long.
        1205 | 1213 | 1062 | 3572 | 1020 | 1317 | 1969 | 3024 | 3101 => (TimedOut, ""),
        1021 | 1037 | 1038 | 1041 | 1114 => (Full, ""),
        1044 | 1045 | 1130 | 1698 => (Refused, CREDENTIALS),
        1142 | 1143 | 1227 | 1370 => (Refused, RUN_SETUP),
        1290 | 1836 | 1792 => (Refused, "it is a replica, or read-only: point the URL to the primary"),
        1153 => (Refused, TOO_LARGE),
        IN_TRANSACTION => (
            Refused,
            "the connection that was lent is in a transaction, which has been rolled back with the connection: end every \
             transaction before its connection returns to the pool",
        ),
        1049 => (Misconfigured, "create the database, or correct its name in the URL"),
        1054 => (Unreadable, OTHER_TABLES),
        // The statements are always the same, so only the server's version can be to blame.
        1064 | 1193 | 1305 => (Misconfigured, "MySQL 8.0 or MariaDB 10.3, or a newer one, is needed"),
        1406 => (Misconfigured, "a key may have 1000 characters in ASCII; others count threefold and more"),
        1665 => (Misconfigured, "binlog_format is STATEMENT there: set it to ROW or MIXED"),
        1040 | 1203 => (Unreachable, "raise max_connections"),
        // The server stops, or has ended the session.
        1047 | 1053 | 1077 | 1079 | 1080 | 1152 | 1158..=1161 | 1184 | 1927 | 4031 => (Unreachable, ""),
        _ => (Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MySQL 8.4 asks an unknown user for it.
    #[test]
    fn unknown_kind_of_password_is_refused_with_advice_about_the_user() {
        let error = Error::Driver(DriverError::UnknownAuthPlugin { name: "sha256_password".to_owned() });
        let error = MysqlError::from(error);
        assert_eq!(error.kind, Refused);
        for part in ["of the kind sha256_password", CREDENTIALS, "caching_sha2_password"] {
            assert!(error.message.contains(part), "{error:?}");
        }
    }
}
