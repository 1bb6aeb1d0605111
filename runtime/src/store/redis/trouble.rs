//! Which kind of trouble an error of the client or the server is.

use std::io;

use redis::{ConnectionAddr, ErrorKind, RedisError};

use super::super::shared::Blame;
#[cfg(feature = "tls")]
use super::super::tls;
use super::super::{StoreErrorKind, network};
use super::script::Script;
use StoreErrorKind::{Full, Misconfigured, Refused, TimedOut, Unreachable, Unreadable};

/// What a script is told of a command that the user may not run: by Redis up to 7.0, and by Redis from 7.2 on and Valkey.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// The codes that mean something to this store: what kind of error, and what it says about the connection. A server that is
/// no longer, or not yet, the primary, or was cut off from its replicas, is left.
const CODES: [(&str, StoreErrorKind, Blame); 14] = [
    ("READONLY", Refused, Blame::Broken),
    ("NOREPLICAS", Refused, Blame::Broken),
    ("NOAUTH", Refused, Blame::Broken),
    ("LOADING", Unreachable, Blame::Broken),
    ("MASTERDOWN", Unreachable, Blame::Broken),
    ("CLUSTERDOWN", Unreachable, Blame::None),
    ("TRYAGAIN", Unreachable, Blame::None),
    ("MOVED", Unreachable, Blame::None),
    ("ASK", Unreachable, Blame::None),
    ("OOM", Full, Blame::None),
    ("BUSY", TimedOut, Blame::None),
    ("WRONGTYPE", Unreadable, Blame::None),
    ("NOPERM", Refused, Blame::None),
    ("MISCONF", Refused, Blame::None),
];

fn meaning(code: Option<&str>) -> Option<(StoreErrorKind, Blame)> {
    CODES.iter().find(|(known, ..)| code == Some(known)).map(|(_, kind, blame)| (*kind, *blame))
}

/// The code of the server's error; of an error inside a script, the code that the script met.
///
/// Redis before 7.0, and some later servers, wrap the error of a command inside a script into a general one:
/// `ERR Error running script (call to f_…): @user_script:1: @user_script: 1: -READONLY You can't write …`.
pub(super) fn code_of(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or_default();
    if code != "ERR" || !detail.contains("script") {
        return Some(code);
    }
    if FORBIDDEN_IN_A_SCRIPT.iter().any(|words| detail.contains(words)) {
        return Some("NOPERM");
    }
    Some(wrapped(detail).map_or(code, |(code, _)| code))
}

/// The wrapped code, and its words.
fn wrapped(detail: &str) -> Option<(&str, &str)> {
    let mut rest = detail;
    loop {
        let (word, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let code = word.trim_start_matches('-');
        if meaning(Some(code)).is_some() {
            return Some((code, words));
        }
        rest = rest.split_once(' ')?.1;
    }
}

/// What an error says about the connection that it came over.
pub(super) fn blame(error: &RedisError) -> Blame {
    match (meaning(code_of(error)), error.kind()) {
        _ if error.is_timeout() => Blame::Silent,
        (Some((_, blame)), _) => blame,
        (None, ErrorKind::Server(_) | ErrorKind::Extension) => Blame::None,
        _ => Blame::Broken,
    }
}

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
    #[cfg(feature = "tls")]
    if tls::explain(error).is_some() {
        return StoreErrorKind::Untrusted;
    }
    match (error.kind(), code_of(error)) {
        _ if error.is_timeout() => TimedOut,
        _ if is_no_database(error) => Misconfigured,
        (ErrorKind::Io, _) => Unreachable,
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => Unreadable,
        // The script met a value that no version of this crate writes.
        (_, Some("ERR")) if error.detail().is_some_and(|detail| detail.contains("user_script")) => Unreadable,
        (_, code) => meaning(code).map_or(Refused, |(kind, _)| kind),
    }
}

/// What happened, in the words of the server where it answered. Never with a password: the client keeps it out of its
/// errors, and the server is never sent it in a command that it might repeat.
pub(super) fn describe(error: &RedisError, script: Option<&Script>) -> String {
    #[cfg(feature = "tls")]
    if let Some(words) = tls::explain(error) {
        return words;
    }
    match (error.kind(), code_of(error), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => "wrong user or password: check both in the URL".to_owned(),
        (ErrorKind::MasterNameNotFoundBySentinel, _, Some(detail)) => detail.to_owned(),
        (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), Some(detail)) => {
            // Before it knows the user, a server takes no more than ten words.
            if code == "NOAUTH" || detail.contains("unauthenticated") {
                return "the server asks for a password, and the URL has none".to_owned();
            }
            if is_no_database(error) {
                return format!("{code} {detail}: correct the database's number at the end of the URL");
            }
            // Redis up to 7.0 does not name the command.
            let forbidden = error.code() == Some("ERR") && code == "NOPERM";
            if let Some(command) = script.filter(|_| forbidden).and_then(|script| script.command_in(detail))
                && !detail.contains(" key")
                && !detail.contains(" channel")
            {
                let grant = command.to_lowercase();
                return format!(
                    "NOPERM this user has no permission to run {command} in a script: grant +{grant}"
                );
            }
            let words = wrapped(detail).map_or(detail, |(_, words)| words);
            let words = words.trim_start_matches("ACL failure in script: ");
            // What follows is the script's digest, and the line.
            let words = words.split(" script: ").next().unwrap_or(words);
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
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    let Some(cause) = network::find(&error) else { return error };
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
