//! Classifies the errors of the client and the server, and gives advice.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::job::outcome::BoxError;
use crate::store::net::connection::ConnectionFault;
use crate::store::net::errors;
use crate::store::net::sql_rows::UnreadableRow;
use crate::store::net::sql_server::SqlError;
#[cfg(feature = "tls")]
use crate::store::net::tls;
use crate::store::{StoreError, StoreErrorKind};
use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable, Untrusted};

pub(super) type Result<T, E = PostgresError> = std::result::Result<T, E>;

/// The error of one exchange. Never contains a password: neither the client nor the server repeats it.
#[derive(Clone, Debug)]
pub(crate) struct PostgresError {
    pub(super) kind: StoreErrorKind,
    pub(super) message: String,
    code: Option<SqlState>,
}

impl SqlError for PostgresError {
    fn is_conflict(&self) -> bool {
        self.code.is_some() && self.kind == TimedOut
    }

    fn is_missing(&self) -> bool {
        self.is(&SqlState::UNDEFINED_TABLE) || self.is(&SqlState::INVALID_SCHEMA_NAME)
    }

    fn is_unreadable(&self) -> bool {
        self.kind == Unreadable
    }

    fn into_store_error(self, step: &'static str, location: &str) -> StoreError {
        StoreError::new(self.kind, step, location, self.message)
    }
}

impl From<UnreadableRow> for PostgresError {
    fn from(row: UnreadableRow) -> Self {
        Self::new(Unreadable, row.explain(OTHER_TABLES))
    }
}

impl PostgresError {
    pub(super) fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), code: None }
    }

    pub(super) fn timed_out(what: &str, after: Duration) -> Self {
        Self::new(TimedOut, format!("{what} within {after:?}"))
    }

    /// Adds advice.
    pub(super) fn with_advice(self, advice: &str) -> Self {
        Self { message: format!("{}: {advice}", self.message), ..self }
    }

    /// Adds what failed.
    pub(super) fn during(self, circumstances: &str) -> Self {
        Self { message: format!("{circumstances}: {}", self.message), ..self }
    }

    /// Whether the server has answered with this code.
    pub(super) fn is(&self, code: &SqlState) -> bool {
        self.code.as_ref() == Some(code)
    }

    pub(super) fn fault(&self) -> ConnectionFault {
        match (&self.code, self.kind) {
            (_, Unreachable | Untrusted) | (None, Refused) => ConnectionFault::Broken,
            (Some(code), _) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ConnectionFault::Broken,
            // Only the check for a transaction divides.
            (Some(code), _) if *code == SqlState::DIVISION_BY_ZERO => ConnectionFault::Broken,
            (None, TimedOut) => ConnectionFault::Silent,
            _ => ConnectionFault::None,
        }
    }

    /// Creates the error that the server returned.
    pub(super) fn of_server(code: SqlState, said: &str, more: [Option<&str>; 2]) -> Self {
        if code == SqlState::DIVISION_BY_ZERO {
            return Self { kind: Refused, message: IN_TRANSACTION.to_owned(), code: Some(code) };
        }
        let (kind, advice) = kind_and_advice(code.code(), said);
        let mut message = format!("{said} ({})", code.code());
        for more in more.into_iter().flatten().chain([advice]).filter(|more| !more.is_empty()) {
            message = format!("{message}; {}", more.trim_end_matches('.'));
        }
        Self { kind, message, code: Some(code) }
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&tokio_postgres::Error> for PostgresError {
    fn from(error: &tokio_postgres::Error) -> Self {
        if let Some(server) = error.as_db_error() {
            let more = [server.detail(), server.hint()];
            return Self::of_server(server.code().clone(), server.message(), more);
        }
        #[cfg(feature = "tls")]
        if let Some(message) = tls::explain(error) {
            return Self::new(Untrusted, message);
        }
        let message = match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let (kind, message) = match errors::find(error) {
            _ if message.contains("server does not support TLS") => {
                let advice = "set `ssl = on` there, or write sslmode=disable if the network is private";
                (Untrusted, format!("the server does not speak TLS: {advice}"))
            }
            _ if message.contains("password missing") => {
                (Refused, "the server asks for a password, and the URL has none".to_owned())
            }
            _ if message.contains("channel binding") => {
                (Refused, format!("{message}: leave channel_binding=require out"))
            }
            // The client's error if no server accepts writes.
            Some(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                (Refused, format!("{cause}: it is a standby, or read-only"))
            }
            Some(cause) if cause.kind() == io::ErrorKind::TimedOut => (TimedOut, message),
            Some(cause) => match errors::advice(cause) {
                Some(advice) => (Unreachable, format!("{message}: {advice}")),
                None => (Unreachable, message),
            },
            None if error.is_closed() => (Unreachable, message),
            None => (Refused, message),
        };
        Self::new(kind, message)
    }
}

/// The error of a connection source.
impl From<BoxError> for PostgresError {
    fn from(error: BoxError) -> Self {
        match errors::find_in::<tokio_postgres::Error>(error.as_ref()) {
            Some(known) => Self::from(known),
            None => Self::new(Unreachable, error.to_string()),
        }
    }
}

const OTHER_TABLES: &str = "the tables of this schema were made by an older version of this crate, or by another program: drop \
                            job_note, job_record, job_fence and job_lock, or name another schema in the URL: ?schema=jobs";

const IN_TRANSACTION: &str = "the connection that was lent is in a transaction, which has been rolled back with the connection: end every \
                              transaction before its connection returns to the pool";

const RUN_SETUP: &str = "have an administrator run what `PostgresStore::setup_sql` returns: it makes what is missing, and \
                         grants what is needed";

const MAY_WANT_TLS: &str = if cfg!(feature = "tls") {
    "it may want TLS: write sslmode=verify-full, or add a line to pg_hba.conf"
} else {
    "it may want TLS: build with the feature `tls` of singleton-jobs, or add a line to pg_hba.conf"
};

/// The advice is empty if there is none. Only that another session was in the way is `TimedOut`.
fn kind_and_advice(code: &str, message: &str) -> (StoreErrorKind, &'static str) {
    let says = |text: &str| message.contains(text);
    match code {
        "40001" | "40P01" | "55P03" | "57014" | "23505" => (TimedOut, ""),
        "53100" | "53200" | "53400" => (Full, ""),
        "28000" if says("client certificate") || says("certificate authentication") => (
            Untrusted,
            "name a certificate that is for this user, and the key to it, with \
             sslcert=/path/to/client.pem&sslkey=/path/to/client.key",
        ),
        "28000" if says("no encryption") => (Refused, MAY_WANT_TLS),
        "28000" if says("SSL encryption") => (
            Refused,
            "check the user in the URL, and add a line to pg_hba.conf, or write sslmode=disable if it lets this user in \
             without TLS only",
        ),
        "28000" | "28P01" => (Refused, "check user and password in the URL, and pg_hba.conf"),
        "42501" => (Refused, RUN_SETUP),
        "42703" => (Unreadable, OTHER_TABLES),
        "3D000" => (Misconfigured, "create the database, or correct its name in the URL"),
        // The statements are always the same, so only the server's version can be to blame.
        "42601" | "42704" => (Misconfigured, "PostgreSQL 12 or newer is needed"),
        "25006" => (Refused, "this is a standby, or read-only: point the URL to the primary"),
        "53300" => (Unreachable, "raise max_connections, or put a pooler between"),
        "22021" | "22P05" => (Misconfigured, "use names in ASCII, without U+0000"),
        _ if code.starts_with("08") || code.starts_with("57P") => (Unreachable, ""),
        _ => (Refused, ""),
    }
}
