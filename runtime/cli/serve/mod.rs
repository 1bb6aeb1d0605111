//! The commands that serve until ctrl-c.

/// Prints a line to the standard error, which may be closed: `eprintln!` would panic then, and end the service.
macro_rules! report {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _is_closed = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub(crate) mod dashboard;
pub(crate) mod exporter;
