//! Which kind of trouble an error of the client or the server is.

use std::io;

use redis::{ConnectionAddr, ErrorKind, RedisError, make_extension_error};

use super::commands::script::Script;
use crate::store::StoreErrorKind;
use crate::store::net::connection::Fault;
use crate::store::net::errors;
#[cfg(feature = "tls")]
use crate::store::net::tls;
use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable};

/// What a script is told of a command that the user may not run: by Redis up to 7.0, and by Redis from 7.2 on and Valkey.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// The codes that mean something to this store: what kind of error, and what it says about the connection. A server that is
/// no longer, or not yet, the primary, or was cut off from its replicas, is left.
const CODES: [(&str, StoreErrorKind, Fault); 14] = [
    ("READONLY", Refused, Fault::Broken),
    ("NOREPLICAS", Refused, Fault::Broken),
    ("NOAUTH", Refused, Fault::Broken),
    ("LOADING", Unreachable, Fault::Broken),
    ("MASTERDOWN", Unreachable, Fault::Broken),
    ("CLUSTERDOWN", Unreachable, Fault::None),
    ("TRYAGAIN", Unreachable, Fault::None),
    ("MOVED", Unreachable, Fault::None),
    ("ASK", Unreachable, Fault::None),
    ("OOM", Full, Fault::None),
    ("BUSY", TimedOut, Fault::None),
    ("WRONGTYPE", Unreadable, Fault::None),
    ("NOPERM", Refused, Fault::None),
    ("MISCONF", Refused, Fault::None),
];

fn meaning(code: Option<&str>) -> Option<(StoreErrorKind, Fault)> {
    CODES.iter().find(|(known, ..)| code == Some(known)).map(|(_, kind, blame)| (*kind, *blame))
}

/// An error of this store's own: its words are reported as they are.
pub(super) fn own(kind: ErrorKind, why: impl Into<String>) -> RedisError {
    (kind, "", why.into()).into()
}

/// What the server has is not what this version writes.
pub(super) fn unreadable(why: impl Into<String>) -> RedisError {
    own(ErrorKind::UnexpectedReturnType, why)
}

/// An error of a script with the code and the words of the command that failed in it.
///
/// Redis before 7.0, and some later servers, wrap the error of a command inside a script into a general one:
/// `ERR Error running script (call to f_…): @user_script:1: @user_script: 1: -READONLY You can't write …`.
pub(super) fn of_script(error: RedisError, script: &Script) -> RedisError {
    let (Some("ERR"), Some(detail)) = (error.code(), error.detail()) else { return error };
    let forbidden = FORBIDDEN_IN_A_SCRIPT.iter().any(|words| detail.contains(words));
    let (code, words) = match wrapped(detail) {
        _ if forbidden => ("NOPERM", detail.trim_start_matches("ACL failure in script: ")),
        Some(wrapped) => wrapped,
        None => return error,
    };
    // Redis up to 7.0 does not name the command.
    let words = match script.command_in(detail) {
        Some(command) if code == "NOPERM" && !detail.contains(" key") && !detail.contains(" channel") => {
            let grant = command.to_lowercase();
            format!("this user has no permission to run {command} in a script: grant +{grant}")
        }
        _ => words.to_owned(),
    };
    make_extension_error(code.to_owned(), Some(words))
}

/// The first code among these words, and what follows it.
fn wrapped(words: &str) -> Option<(&str, &str)> {
    let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
    let code = word.trim_start_matches('-');
    match meaning(Some(code)) {
        Some(_) => Some((code, rest)),
        None if rest.is_empty() => None,
        None => wrapped(rest),
    }
}

/// What an error says about the connection that it came over.
pub(super) fn fault(error: &RedisError) -> Fault {
    match (meaning(error.code()), error.kind()) {
        _ if error.is_timeout() => Fault::Silent,
        (Some((_, blame)), _) => blame,
        (None, ErrorKind::Server(_) | ErrorKind::Extension) => Fault::None,
        _ => Fault::Broken,
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

/// What happened, in the words of the server where it answered. Never with a password: the client keeps it out of its
/// errors, and the server is never sent it in a command that it might repeat.
pub(super) fn describe(error: &RedisError) -> String {
    use ErrorKind::{InvalidClientConfig, MasterNameNotFoundBySentinel, UnexpectedReturnType};
    #[cfg(feature = "tls")]
    if let Some(words) = tls::explain(error) {
        return words;
    }
    match (error.kind(), error.code(), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => "wrong user or password: check both in the URL".to_owned(),
        (InvalidClientConfig | MasterNameNotFoundBySentinel | UnexpectedReturnType, _, Some(why)) => {
            why.to_owned()
        }
        // Before it knows the user, a server takes no more than ten words.
        (_, Some(code), Some(detail)) if code == "NOAUTH" || detail.contains("unauthenticated") => {
            "the server asks for a password, and the URL has none".to_owned()
        }
        (_, Some(code), Some(detail)) if is_no_database(error) => {
            format!("{code} {detail}: correct the database's number at the end of the URL")
        }
        (_, Some(code), Some(detail)) => {
            // What follows is the script's digest, and the line.
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

/// The same error, told with what it means while a connection is opened.
pub(super) fn of_connecting(error: RedisError, address: &ConnectionAddr) -> RedisError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    let Some(cause) = errors::find(&error) else { return error };
    let words = match (cause.kind(), matches!(address, ConnectionAddr::TcpTls { .. })) {
        // A server that does not speak TLS waits for the end of what it takes for a command.
        (TimedOut, true) => {
            "no connection in time: check host and port, and that TLS is spoken there, because without it the URL begins \
             with redis://"
        }
        (TimedOut, false) => "no connection in time: check host and port, and that no firewall is between",
        (ConnectionReset | BrokenPipe | UnexpectedEof, false) => {
            "the server closed the connection without a word: if it speaks TLS, the URL begins with rediss://"
        }
        _ => return error,
    };
    io::Error::new(cause.kind(), words).into()
}

#[cfg(test)]
mod tests;
