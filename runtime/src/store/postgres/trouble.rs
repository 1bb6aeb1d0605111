//! Which kind of trouble an error of the client or the server is, and what to do about it.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use super::super::StoreErrorKind;
use super::super::shared::Blame;

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

    /// The same, and what was tried when it came up.
    pub(super) fn amid(self, circumstances: &str) -> Self {
        Self { words: format!("{circumstances}: {}", self.words), ..self }
    }

    /// Whether the tables or functions are not there.
    pub(super) fn is_missing(&self) -> bool {
        let codes = [
            SqlState::UNDEFINED_FUNCTION,
            SqlState::UNDEFINED_TABLE,
            SqlState::INVALID_SCHEMA_NAME,
            SqlState::UNDEFINED_OBJECT,
        ];
        self.is_one_of(&codes)
    }

    /// Whether the step had no effect, and may have one if it is tried again at once.
    pub(super) fn was_only_in_the_way(&self) -> bool {
        self.is_one_of(&[
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
        ])
    }

    /// Whether the user may not do it.
    pub(super) fn is_forbidden(&self) -> bool {
        self.is_one_of(&[SqlState::INSUFFICIENT_PRIVILEGE])
    }

    pub(super) fn blame(&self) -> Blame {
        match (&self.code, self.kind) {
            (_, StoreErrorKind::Unreachable) | (None, StoreErrorKind::Refused) => Blame::Broken,
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
        if let Some(server) = error.as_db_error() {
            return Self::from(server);
        }
        let cause = error.source();
        let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
        let kind = match io.map(io::Error::kind) {
            Some(io::ErrorKind::TimedOut) => StoreErrorKind::TimedOut,
            // How the client says that it was told to find a server that takes writes.
            Some(io::ErrorKind::PermissionDenied) => StoreErrorKind::Refused,
            Some(_) => StoreErrorKind::Unreachable,
            None if error.is_closed() => StoreErrorKind::Unreachable,
            None => StoreErrorKind::Refused,
        };
        let words = match cause {
            Some(cause) if kind == StoreErrorKind::Refused && io.is_some() => {
                format!("{cause}: it is a standby, or read-only")
            }
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        Self::new(kind, words)
    }
}

impl From<&DbError> for Trouble {
    fn from(error: &DbError) -> Self {
        let code = error.code().clone();
        let (kind, advice) = kind_and_advice(code.code());
        let mut words = format!("{} ({})", error.message(), code.code());
        for more in error.detail().into_iter().chain(error.hint()).chain(advice) {
            words = format!("{words}; {}", more.trim_end_matches('.'));
        }
        Self { kind, words, code: Some(code) }
    }
}

fn kind_and_advice(code: &str) -> (StoreErrorKind, Option<&'static str>) {
    use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable};
    match code {
        "JB001" => (Unreadable, None),
        "JB002" | "42703" => (Unreadable, Some("choose another schema in the URL: ?schema=jobs")),
        "28P01" | "28000" => (Refused, Some("check user and password in the URL, and pg_hba.conf")),
        "3D000" => (Misconfigured, Some("create the database, or correct its name in the URL")),
        "42501" => (Refused, None),
        // What is said to it is always the same, so only its version can be to blame.
        "42601" => (Refused, Some("PostgreSQL 10 or newer is needed")),
        "25006" => (Refused, Some("this is a standby, or read-only: point the URL to the primary")),
        "53300" => (Unreachable, Some("raise max_connections, or put a pooler between")),
        "53100" | "53200" | "53400" => (Full, None),
        "40001" | "40P01" | "55P03" | "57014" => (TimedOut, None),
        "22021" | "22P05" => {
            (Misconfigured, Some("use a database with the encoding UTF8, and names without U+0000"))
        }
        _ if code.starts_with("08") || code.starts_with("57P") => (Unreachable, None),
        _ => (Refused, None),
    }
}
