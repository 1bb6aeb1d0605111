//! The rules: one pure function per transition, from a look and a message to a reply and a change.
//!
//! Nothing here does I/O or reads a clock: every instant comes from the look. A reply without a change needs no swap. With
//! a change, the reply counts only once the swap has been applied; if the key has changed meanwhile, the decision is made
//! anew on the new look.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::Change;

mod claim;
mod history;
mod lease;
pub(crate) mod messages;
mod operate;
mod slots;
#[cfg(test)]
mod tests;
mod transition;

pub use claim::claim;
pub use history::{held, history};
pub use lease::{extend, release};
pub use operate::{break_lock, cancel, forget, request, reset, set_paused};

/// The fence of a lease before the store has computed it; also in the release of a claim whose answer never came: whatever it
/// won, if anything, is given back.
pub const UNKNOWN_FENCE: i64 = 0;

/// A reply, and what has to be written for it to be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<T> {
    /// The reply to the message.
    pub reply: T,
    /// The change to swap in; `None` if the reply changes nothing.
    pub change: Option<Change>,
}

/// The end of a lease: whole milliseconds, rounded up, because Redis expires a key by them.
fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let micros = now.plus(ttl).as_micros();
    Timestamp::from_micros(micros.saturating_add(999).div_euclid(1000).saturating_mul(1000))
}
