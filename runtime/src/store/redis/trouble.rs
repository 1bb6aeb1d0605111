//! Which kind of trouble an error of the client or the server is.

use std::io;

use redis::{ConnectionAddr, ErrorKind, RedisError, ServerErrorKind};

#[cfg(feature = "tls")]
use super::super::tls;
use super::super::{StoreErrorKind, network};
use super::script::Script;

const FORBIDDEN_IN_A_SCRIPT: &str = "The user executing the script can't";

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
    #[cfg(feature = "tls")]
    if tls::explain(error).is_some() {
        return StoreErrorKind::Untrusted;
    }
    match error.kind() {
        _ if error.is_timeout() => StoreErrorKind::TimedOut,
        ErrorKind::Io
        | ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::TryAgain
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        ) => StoreErrorKind::Unreachable,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => StoreErrorKind::Unreadable,
        _ if is_no_database(error) => StoreErrorKind::Misconfigured,
        ErrorKind::Server(ServerErrorKind::ResponseError) => inside(error.detail().unwrap_or_default()),
        ErrorKind::Extension => by_code(error.code().unwrap_or_default()).unwrap_or(StoreErrorKind::Refused),
        _ => StoreErrorKind::Refused,
    }
}

/// Whether it may pass without anybody doing anything.
#[cfg(feature = "sentinel")]
pub(super) fn is_transient(error: &RedisError) -> bool {
    kind_of(error).may_pass()
}

/// What happened in a script or outside of one, in the words of the server where it spoke. Never with a password: the
/// client keeps it
/// out of its errors, and the server is never sent it in a command that it might repeat.
pub(super) fn describe(error: &RedisError, script: Option<&Script>) -> String {
    #[cfg(feature = "tls")]
    if let Some(words) = tls::explain(error) {
        return words;
    }
    match (error.kind(), error.code(), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => "wrong user or password: check both in the URL".to_owned(),
        (ErrorKind::MasterNameNotFoundBySentinel, _, Some(detail)) => detail.to_owned(),
        (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), Some(detail)) => {
            // Before it knows who asks, a server takes no more than ten words.
            if code == "NOAUTH" || detail.contains("unauthenticated") {
                return "the server asks for a password, and the URL has none".to_owned();
            }
            if is_no_database(error) {
                return format!("{code} {detail}: correct the database's number at the end of the URL");
            }
            // Redis before 7.2 does not say which.
            let forbidden = detail.contains(FORBIDDEN_IN_A_SCRIPT);
            if let Some(command) = script.filter(|_| forbidden).and_then(|script| script.command_in(detail)) {
                return format!(
                    "NOPERM this user has no permission to run {command} in a script: grant +{command}"
                );
            }
            let words = detail.split(" script: ").next().unwrap_or(detail);
            format!("{code} {}", words.trim_end_matches('.'))
        }
        (ErrorKind::Io, ..) => match network::find(error).and_then(network::advice) {
            Some(advice) => format!("{error}: {advice}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

fn is_no_database(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("DB index is out of range"))
}

/// The same error, told with what it means while a connection is opened.
pub(super) fn of_dialling(error: RedisError, address: &ConnectionAddr) -> RedisError {
    let encrypted = matches!(address, ConnectionAddr::TcpTls { .. });
    let Some(cause) = network::find(&error) else { return error };
    let words = match (cause.kind(), encrypted) {
        // A server that does not speak TLS waits for the end of what it takes for a command.
        (io::ErrorKind::TimedOut, true) => {
            "no connection in time: check host and port, and that TLS is spoken there, because without it the URL begins \
             with redis://"
        }
        (io::ErrorKind::TimedOut, false) => {
            "no connection in time: check host and port, and that no firewall is between"
        }
        (
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof,
            false,
        ) => {
            "the server closed the connection without a word: if it speaks TLS, the URL begins with rediss://"
        }
        _ => return error,
    };
    io::Error::new(cause.kind(), words).into()
}

fn by_code(code: &str) -> Option<StoreErrorKind> {
    match code {
        "OOM" => Some(StoreErrorKind::Full),
        "WRONGTYPE" | "UNREADABLE" => Some(StoreErrorKind::Unreadable),
        "BUSY" => Some(StoreErrorKind::TimedOut),
        _ => None,
    }
}

/// Redis before 7 wraps the error of a command inside a script into a general one.
fn inside(detail: &str) -> StoreErrorKind {
    let code = detail.split(|c: char| !c.is_ascii_uppercase()).find_map(by_code);
    if detail.contains(FORBIDDEN_IN_A_SCRIPT) {
        return StoreErrorKind::Refused;
    }
    code.unwrap_or(if detail.contains("user_script") {
        // The script stumbled over a value that no version of this crate writes.
        StoreErrorKind::Unreadable
    } else {
        StoreErrorKind::Refused
    })
}
