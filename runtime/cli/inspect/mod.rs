//! The commands that only read.

mod job;
mod list;
mod others;

pub(crate) use job::{differences, history, show, why};
pub(crate) use list::{list, state, style_of};
pub(crate) use others::{CLOCK_LIMIT, audit, locks, servers};
