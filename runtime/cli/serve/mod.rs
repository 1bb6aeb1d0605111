//! The commands that serve until ctrl-c.

pub(crate) mod dashboard;
pub(crate) mod exporter;
