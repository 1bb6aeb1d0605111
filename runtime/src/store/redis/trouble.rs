//! Which kind of trouble an error of the client or the server is.

use std::io;

use redis::{ConnectionAddr, ErrorKind, RedisError};

use super::super::shared::Blame;
#[cfg(feature = "tls")]
use super::super::tls;
use super::super::{StoreErrorKind, network};
use super::script::Script;

/// What a script is told of a command that the user may not run: by Redis up to 7.0, and by Redis from 7.2 on and Valkey.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// The codes that mean something to this store, and may be wrapped.
const CODES: [&str; 10] = [
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "NOREPLICAS",
    "OOM",
    "NOPERM",
    "MISCONF",
    "WRONGTYPE",
    "BUSY",
];

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
        let word = rest.split(' ').next().unwrap_or_default();
        let code = word.trim_start_matches('-');
        if CODES.contains(&code) {
            return Some((code, rest[word.len()..].trim_start()));
        }
        rest = rest.split_once(' ')?.1;
    }
}

/// What an error says about the connection that it came over.
pub(super) fn blame(error: &RedisError) -> Blame {
    if error.is_timeout() {
        return Blame::Silent;
    }
    match (error.kind(), code_of(error)) {
        // It leads to a server that is no longer, or not yet, the primary, or was cut off from its replicas.
        (_, Some("READONLY" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "NOAUTH")) => Blame::Broken,
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => Blame::None,
        _ => Blame::Broken,
    }
}

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
    #[cfg(feature = "tls")]
    if tls::explain(error).is_some() {
        return StoreErrorKind::Untrusted;
    }
    match (error.kind(), code_of(error)) {
        _ if error.is_timeout() => StoreErrorKind::TimedOut,
        _ if is_no_database(error) => StoreErrorKind::Misconfigured,
        (ErrorKind::Io, _) => StoreErrorKind::Unreachable,
        (_, Some("LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK")) => {
            StoreErrorKind::Unreachable
        }
        (_, Some("OOM")) => StoreErrorKind::Full,
        (_, Some("BUSY")) => StoreErrorKind::TimedOut,
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) | (_, Some("WRONGTYPE")) => {
            StoreErrorKind::Unreadable
        }
        // The script met a value that no version of this crate writes.
        (_, Some("ERR")) if error.detail().is_some_and(|detail| detail.contains("user_script")) => {
            StoreErrorKind::Unreadable
        }
        _ => StoreErrorKind::Refused,
    }
}

/// Whether it may pass without anybody doing anything.
pub(super) fn is_transient(error: &RedisError) -> bool {
    kind_of(error).may_pass()
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

#[cfg(test)]
mod tests {
    use redis::{ServerError, Value, parse_redis_value};

    use super::super::script::SWAP;
    use super::*;

    /// The error as it comes over the connection.
    fn error(line: &str) -> RedisError {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => ServerError::into(error),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// An error of a script as Redis before 7.0 words it, and as 7.0 does.
    fn both(code: &str, words: &str) -> [RedisError; 2] {
        let digest = "f_1e8b589ccf5dd852352ba15e63f22b8a9c302e71";
        [
            error(&format!(
                "ERR Error running script (call to {digest}): @user_script:17: @user_script: 17: -{code} {words}"
            )),
            error(&format!(
                "{code} {words} script: 1e8b589ccf5dd852352ba15e63f22b8a9c302e71, on @user_script:17."
            )),
        ]
    }

    #[test]
    fn wrapped_error_counts_like_the_one_inside() {
        use StoreErrorKind::{Full, Refused, Unreachable, Unreadable};
        for (code, words, kind, is_broken) in [
            ("READONLY", "You can't write against a read only replica.", Refused, true),
            ("LOADING", "Redis is loading the dataset in memory", Unreachable, true),
            (
                "MASTERDOWN",
                "Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                Unreachable,
                true,
            ),
            ("NOREPLICAS", "Not enough good replicas to write.", Refused, true),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", Full, false),
            ("MISCONF", "Redis is configured to save RDB snapshots, but …", Refused, false),
            ("NOPERM", "this user has no permissions to run the 'hset' command", Refused, false),
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value", Unreadable, false),
        ] {
            for error in both(code, words) {
                assert_eq!(kind_of(&error), kind, "{error}");
                assert_eq!(blame(&error) == Blame::Broken, is_broken, "{error}");
                assert_eq!(
                    describe(&error, None),
                    format!("{code} {}", words.trim_end_matches('.')),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn other_error_of_a_script_is_unreadable_data() {
        let compared =
            "ERR user_script:33: attempt to compare nil with number script: 1e8b, on @user_script:33.";
        assert_eq!(kind_of(&error(compared)), StoreErrorKind::Unreadable);
        assert_eq!(kind_of(&error("ERR unknown command 'EVALSHA'")), StoreErrorKind::Refused);
    }

    #[test]
    fn missing_permission_names_the_command() {
        let line = 1 + include_str!("swap.lua").lines().position(|line| line.contains("'LPUSH'")).unwrap();
        let digest = "1e8b589ccf5dd852352ba15e63f22b8a9c302e71";
        for words in [
            // Redis 6.2.
            format!(
                "ERR Error running script (call to f_{digest}): @user_script:{line}: @user_script: {line}: The user \
                 executing the script can't run this command or subcommand"
            ),
            // Redis 7.0.
            format!(
                "ERR The user executing the script can't run this command or subcommand script: {digest}, on \
                 @user_script:{line}."
            ),
            // Redis 7.2 to 8, Redict, Valkey.
            format!(
                "ERR ACL failure in script: User app has no permissions to run the 'hset' command script: {digest}, on \
                 @user_script:{line}."
            ),
            // Valkey 9.1.
            format!(
                "ERR ACL failure in script: User app has no permissions to run the 'hset' command, on \
                 @user_script:{line}."
            ),
        ] {
            let error = error(&words);
            assert_eq!(kind_of(&error), StoreErrorKind::Refused, "{words}");
            assert!(blame(&error) == Blame::None, "{words}");
            assert_eq!(
                describe(&error, Some(&SWAP)),
                "NOPERM this user has no permission to run LPUSH in a script: grant +lpush",
                "{words}"
            );
        }
        let key = format!(
            "ERR ACL failure in script: User app has no permissions to access the 'lock:a' key script: {digest}, on \
             @user_script:{line}."
        );
        assert_eq!(
            describe(&error(&key), Some(&SWAP)),
            "NOPERM User app has no permissions to access the 'lock:a' key"
        );
    }
}
