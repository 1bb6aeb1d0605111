//! Which kind of trouble an error of the client or the server is, and what to do about it.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use super::super::shared::Blame;
#[cfg(feature = "tls")]
use super::super::tls;
use super::super::{StoreErrorKind, network};
use crate::outcome::BoxError;

/// What went wrong in one exchange. Never with a password: neither the client nor the server repeats it.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) kind: StoreErrorKind,
    pub(super) words: String,
    code: Option<SqlState>,
}

impl Trouble {
    pub(super) fn new(kind: StoreErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into(), code: None }
    }

    pub(super) fn timed_out(what: &str, after: Duration) -> Self {
        Self::new(StoreErrorKind::TimedOut, format!("{what} within {after:?}"))
    }

    /// The same, and what to do.
    pub(super) fn advising(self, advice: &str) -> Self {
        Self { words: format!("{}: {advice}", self.words), ..self }
    }

    /// The same, and what was tried when it came up.
    pub(super) fn amid(self, circumstances: &str) -> Self {
        Self { words: format!("{circumstances}: {}", self.words), ..self }
    }

    /// Whether the tables are not there.
    pub(super) fn is_missing(&self) -> bool {
        self.is_one_of(&[SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME])
    }

    /// Whether another session was in the way: the statement was not applied, and may be if it is sent again.
    pub(super) fn is_conflict(&self) -> bool {
        self.is_one_of(&[
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::UNIQUE_VIOLATION,
            SqlState::QUERY_CANCELED,
        ])
    }

    /// Whether the user may not do it.
    pub(super) fn is_forbidden(&self) -> bool {
        self.is_one_of(&[SqlState::INSUFFICIENT_PRIVILEGE])
    }

    /// Whether it is about what is stored, and nothing else.
    pub(super) fn is_unreadable(&self) -> bool {
        self.kind == StoreErrorKind::Unreadable
    }

    pub(super) fn blame(&self) -> Blame {
        match (&self.code, self.kind) {
            (_, StoreErrorKind::Unreachable | StoreErrorKind::Untrusted)
            | (None, StoreErrorKind::Refused) => Blame::Broken,
            (Some(code), _) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Blame::Broken,
            (None, StoreErrorKind::TimedOut) => Blame::Silent,
            _ => Blame::None,
        }
    }

    fn is_one_of(&self, codes: &[SqlState]) -> bool {
        self.code.as_ref().is_some_and(|code| codes.contains(code))
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&tokio_postgres::Error> for Trouble {
    fn from(error: &tokio_postgres::Error) -> Self {
        use StoreErrorKind::{Refused, TimedOut, Unreachable, Untrusted};
        if let Some(server) = error.as_db_error() {
            return Self::from(server);
        }
        #[cfg(feature = "tls")]
        if let Some(words) = tls::explain(error) {
            return Self::new(Untrusted, words);
        }
        let words = match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        if words.contains("server does not support TLS") {
            return Self::new(Untrusted, "the server does not speak TLS")
                .advising("set `ssl = on` there, or write sslmode=disable if nobody can listen between");
        }
        if words.contains("password missing") {
            return Self::new(Refused, "the server asks for a password, and the URL has none");
        }
        if words.contains("channel binding") {
            return Self::new(Refused, words).advising("leave channel_binding=require out");
        }
        match network::find(error) {
            // How the client says that it was told to find a server that takes writes.
            Some(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                Self::new(Refused, format!("{cause}: it is a standby, or read-only"))
            }
            Some(cause) if cause.kind() == io::ErrorKind::TimedOut => Self::new(TimedOut, words),
            Some(cause) => match network::advice(cause) {
                Some(advice) => Self::new(Unreachable, words).advising(advice),
                None => Self::new(Unreachable, words),
            },
            None if error.is_closed() => Self::new(Unreachable, words),
            None => Self::new(Refused, words),
        }
    }
}

/// What a source says that lends nothing.
impl From<BoxError> for Trouble {
    fn from(error: BoxError) -> Self {
        let mut next: Option<&(dyn Error + 'static)> = Some(error.as_ref());
        while let Some(cause) = next {
            if let Some(known) = cause.downcast_ref::<tokio_postgres::Error>() {
                return Self::from(known);
            }
            next = cause.source();
        }
        Self::new(StoreErrorKind::Unreachable, error.to_string())
    }
}

impl From<&DbError> for Trouble {
    fn from(error: &DbError) -> Self {
        let code = error.code().clone();
        let (kind, advice) = kind_and_advice(code.code(), error.message());
        let mut words = format!("{} ({})", error.message(), code.code());
        let advice = (!advice.is_empty()).then_some(advice);
        for more in error.detail().into_iter().chain(error.hint()).chain(advice) {
            words = format!("{words}; {}", more.trim_end_matches('.'));
        }
        Self { kind, words, code: Some(code) }
    }
}

pub(super) const OTHER_TABLES: &str = "the tables of this schema were made by an older version of this crate, or by another program: drop \
                            job_lock, job_slot, job_run, job_skip, job_server and job_request, or name another schema in \
                            the URL: ?schema=jobs";

const MAY_WANT_TLS: &str = if cfg!(feature = "tls") {
    "it may want TLS: write sslmode=verify-full, or add a line to pg_hba.conf"
} else {
    "it may want TLS: build with the feature `tls` of singleton-jobs, or add a line to pg_hba.conf"
};

/// The advice is empty if there is none.
fn kind_and_advice(code: &str, message: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable, Untrusted};
    let says = |words: &str| message.contains(words);
    match code {
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
        "42703" => (Unreadable, OTHER_TABLES),
        "3D000" => (Misconfigured, "create the database, or correct its name in the URL"),
        // The statements are always the same, so only the server's version can be to blame.
        "42601" => (Misconfigured, "PostgreSQL 12 or newer is needed"),
        "25006" => (Refused, "this is a standby, or read-only: point the URL to the primary"),
        "53300" => (Unreachable, "raise max_connections, or put a pooler between"),
        "53100" | "53200" | "53400" => (Full, ""),
        "40001" | "40P01" | "55P03" | "57014" | "23505" => (TimedOut, ""),
        "22021" | "22P05" => (Misconfigured, "use names in ASCII, without U+0000"),
        _ if code.starts_with("08") || code.starts_with("57P") => (Unreachable, ""),
        _ => (Refused, ""),
    }
}
