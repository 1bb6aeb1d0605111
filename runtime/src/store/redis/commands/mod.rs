//! The commands that are sent to a Redis server: looks, swaps, lists, records and notes.

pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod look;
pub(crate) mod notes;
pub(crate) mod records;
pub(crate) mod script;
pub(crate) mod swap;
pub(crate) mod token;
