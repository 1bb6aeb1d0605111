//! Errors of the operating system inside other errors, and advice for them.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// Finds the operating system's error that an error is, or wraps.
pub(crate) fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    find_in(error)
}

/// Finds the error of this type that an error is, or wraps.
pub(crate) fn find_in<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| inside(*error)).find_map(|error| error.downcast_ref())
}

/// Returns the error that an error wraps. Some errors do not return it as their source.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(shared.as_ref());
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

pub(crate) fn advice(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("no server listens there; check host and port in the URL"),
        io::ErrorKind::NotFound => Some("there is no such socket, so check its path in the URL"),
        _ if error.to_string().contains("failed to lookup address") => {
            Some("no such host is known here, so check its name in the URL")
        }
        _ => None,
    }
}
