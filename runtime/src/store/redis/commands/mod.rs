//! The commands that are sent to a Redis server: looks, swaps, lists and notes.

pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod look;
pub(crate) mod notes;
pub(crate) mod script;
pub(crate) mod swap;
pub(crate) mod token;
