//! Classifies the errors of the client and the server, and gives advice.

use std::io;

use redis::{ConnectionAddr, ErrorKind, RedisError, make_extension_error};

use super::commands::script::Script;
use crate::store::StoreErrorKind;
use crate::store::net::connection::ConnectionFault;
use crate::store::net::errors;
#[cfg(feature = "tls")]
use crate::store::net::tls;
use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable};

/// The errors of a command in a script that the user may not run: of Redis up to 7.0, and of Redis from 7.2 on and Valkey.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// Error codes, their kinds, and the fault of the connection. The connection is dropped if the server is not the primary,
/// or was cut off from its replicas.
const CODES: [(&str, StoreErrorKind, ConnectionFault); 14] = [
    ("READONLY", Refused, ConnectionFault::Broken),
    ("NOREPLICAS", Refused, ConnectionFault::Broken),
    ("NOAUTH", Refused, ConnectionFault::Broken),
    ("LOADING", Unreachable, ConnectionFault::Broken),
    ("MASTERDOWN", Unreachable, ConnectionFault::Broken),
    ("CLUSTERDOWN", Unreachable, ConnectionFault::None),
    ("TRYAGAIN", Unreachable, ConnectionFault::None),
    ("MOVED", Unreachable, ConnectionFault::None),
    ("ASK", Unreachable, ConnectionFault::None),
    ("OOM", Full, ConnectionFault::None),
    ("BUSY", TimedOut, ConnectionFault::None),
    ("WRONGTYPE", Unreadable, ConnectionFault::None),
    ("NOPERM", Refused, ConnectionFault::None),
    ("MISCONF", Refused, ConnectionFault::None),
];

fn meaning(code: Option<&str>) -> Option<(StoreErrorKind, ConnectionFault)> {
    CODES.iter().find(|(known, ..)| code == Some(known)).map(|(_, kind, blame)| (*kind, *blame))
}

/// Creates an error of this store's own, whose text is reported unchanged.
pub(super) fn own(kind: ErrorKind, why: impl Into<String>) -> RedisError {
    (kind, "", why.into()).into()
}

/// Creates the error for data that this version does not write.
pub(super) fn unreadable(why: impl Into<String>) -> RedisError {
    own(ErrorKind::UnexpectedReturnType, why)
}

/// Returns an error of a script with the code and the text of the command that failed in it.
///
/// Redis before 7.0, and some later servers, wrap the error of a command inside a script into a general one:
/// `ERR Error running script (call to f_…): @user_script:1: @user_script: 1: -READONLY You can't write …`.
pub(super) fn of_script(error: RedisError, script: &Script) -> RedisError {
    let (Some("ERR"), Some(detail)) = (error.code(), error.detail()) else { return error };
    let forbidden = FORBIDDEN_IN_A_SCRIPT.iter().any(|text| detail.contains(text));
    let (code, text) = match wrapped(detail) {
        _ if forbidden => ("NOPERM", detail.trim_start_matches("ACL failure in script: ")),
        Some(wrapped) => wrapped,
        None => return error,
    };
    // Redis up to 7.0 does not name the command.
    let text = match script.command_in(detail) {
        Some(command) if code == "NOPERM" && !detail.contains(" key") && !detail.contains(" channel") => {
            let grant = command.to_lowercase();
            format!("this user has no permission to run {command} in a script: grant +{grant}")
        }
        _ => text.to_owned(),
    };
    make_extension_error(code.to_owned(), Some(text))
}

/// Returns the first known code in a text, and the rest of the text.
fn wrapped(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let code = word.trim_start_matches('-');
    match meaning(Some(code)) {
        Some(_) => Some((code, rest)),
        None if rest.is_empty() => None,
        None => wrapped(rest),
    }
}

/// Returns the fault of the connection that returned the error.
pub(super) fn fault(error: &RedisError) -> ConnectionFault {
    match (meaning(error.code()), error.kind()) {
        _ if error.is_timeout() => ConnectionFault::Silent,
        (Some((_, blame)), _) => blame,
        (None, ErrorKind::Server(_) | ErrorKind::Extension) => ConnectionFault::None,
        _ => ConnectionFault::Broken,
    }
}

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
    #[cfg(feature = "tls")]
    if tls::explain(error).is_some() {
        return StoreErrorKind::Untrusted;
    }
    match (error.kind(), error.code()) {
        _ if error.is_timeout() => TimedOut,
        (kind, _) if kind == ErrorKind::InvalidClientConfig || is_no_database(error) => Misconfigured,
        (ErrorKind::Io, _) => Unreachable,
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => Unreadable,
        // The script met a value that no version of this crate writes.
        (_, Some("ERR")) if error.detail().is_some_and(|detail| detail.contains("user_script")) => Unreadable,
        (_, code) => meaning(code).map_or(Refused, |(kind, _)| kind),
    }
}

/// Describes an error, with the server's own text if it answered. Never contains a password: the client keeps it out of
/// its errors, and no command that the server might repeat contains it.
pub(super) fn describe(error: &RedisError) -> String {
    use ErrorKind::{InvalidClientConfig, MasterNameNotFoundBySentinel, UnexpectedReturnType};
    #[cfg(feature = "tls")]
    if let Some(text) = tls::explain(error) {
        return text;
    }
    match (error.kind(), error.code(), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => "wrong user or password: check both in the URL".to_owned(),
        (InvalidClientConfig | MasterNameNotFoundBySentinel | UnexpectedReturnType, _, Some(why)) => {
            why.to_owned()
        }
        // A server refuses commands of more than ten arguments before authentication.
        (_, Some(code), Some(detail)) if code == "NOAUTH" || detail.contains("unauthenticated") => {
            "the server asks for a password, and the URL has none".to_owned()
        }
        (_, Some(code), Some(detail)) if is_no_database(error) => {
            format!("{code} {detail}: correct the database's number at the end of the URL")
        }
        (_, Some(code), Some(detail)) => {
            // The rest is the script's digest and line.
            let end = detail.find(" script: ").filter(|_| detail.contains("user_script"));
            format!("{code} {}", detail[..end.unwrap_or(detail.len())].trim_end_matches('.'))
        }
        (ErrorKind::Io, ..) => match errors::find(error).and_then(errors::advice) {
            Some(advice) => format!("{error}: {advice}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

fn is_no_database(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("DB index is out of range"))
}

/// Explains an error of opening a connection.
pub(super) fn of_connecting(error: RedisError, address: &ConnectionAddr) -> RedisError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    let Some(cause) = errors::find(&error) else { return error };
    let text = match (cause.kind(), matches!(address, ConnectionAddr::TcpTls { .. })) {
        // A server without TLS takes the handshake for the beginning of a command, and waits for the rest.
        (TimedOut, true) => {
            "no connection in time: check host and port, and that the server speaks TLS; without TLS the URL begins with \
            redis://"
        }
        (TimedOut, false) => "no connection in time: check host and port, and that no firewall blocks them",
        (ConnectionReset | BrokenPipe | UnexpectedEof, false) => {
            "the server closed the connection without an answer: if it speaks TLS, the URL begins with rediss://"
        }
        _ => return error,
    };
    io::Error::new(cause.kind(), text).into()
}

#[cfg(test)]
mod tests;
