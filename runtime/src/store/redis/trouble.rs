//! Which kind of trouble an error of the client or the server is.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::super::StoreErrorKind;

pub(super) fn kind_of(error: &RedisError) -> StoreErrorKind {
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

/// What happened, in the words of the server where it spoke. Never with a password: the client keeps it
/// out of its errors, and the server is never sent it in a command that it might repeat.
pub(super) fn describe(error: &RedisError) -> String {
    match (error.kind(), error.code(), error.detail()) {
        (ErrorKind::AuthenticationFailed, ..) => "wrong user or password".to_owned(),
        (ErrorKind::MasterNameNotFoundBySentinel, _, Some(detail)) => detail.to_owned(),
        (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), Some(detail)) => {
            // Before it knows who asks, a server takes no more than ten words.
            if detail.contains("unauthenticated") {
                return "NOAUTH Authentication required".to_owned();
            }
            let words = detail.split(" script: ").next().unwrap_or(detail);
            format!("{code} {}", words.trim_end_matches('.'))
        }
        _ => error.to_string(),
    }
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
    if detail.contains("The user executing the script can't") {
        return StoreErrorKind::Refused;
    }
    code.unwrap_or(if detail.contains("user_script") {
        // The script stumbled over a value that no version of this crate writes.
        StoreErrorKind::Unreadable
    } else {
        StoreErrorKind::Refused
    })
}
