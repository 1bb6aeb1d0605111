//! The fleet as an operator sees it: all jobs at once, and each tick of a job with the reason why it ran or not.

pub(crate) mod json;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod overview;
pub(crate) mod reason;
pub(crate) mod sentence;
pub(crate) mod ticks;
pub(crate) mod timeline;
mod variants;

#[cfg(test)]
mod tests;
