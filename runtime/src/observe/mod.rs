//! What an operator sees: events, the log, health, and what could go wrong.

pub(crate) mod diagnosis;
pub(crate) mod event;
pub(crate) mod finding;
pub(crate) mod health;
pub(crate) mod hook;
pub(crate) mod log;
