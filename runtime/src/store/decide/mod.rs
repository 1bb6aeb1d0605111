//! The rules: one pure function per transition, from a look and a message to a reply and a change.
//!
//! Nothing here does I/O or reads a clock: every instant comes from the look. A reply without a change needs no swap. With
//! a change, the reply counts only once the swap has been applied; if the key has changed meanwhile, the decision is made
//! anew on the new look.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::Change;

mod claim;
mod fleet;
mod history;
mod lease;
pub(crate) mod messages;
mod operate;
mod registration;
mod slots;
#[cfg(test)]
mod tests;
mod transition;

pub use claim::claim;
pub use fleet::{note_action, pause_fleet, resume_fleet};
pub use history::{held, history};
pub use lease::{extend, release};
pub use operate::{break_lock, cancel, forget, pause, request, reset, resume};

/// The fence of a lease before the store has computed it. Also in the release of a claim that was never answered: that
/// releases what the claim won, if anything.
pub const UNKNOWN_FENCE: i64 = 0;

/// A reply, and the change that makes it true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<T> {
    /// The reply to the message.
    pub reply: T,
    /// The change to swap in; `None` if the reply changes nothing.
    pub change: Option<Change>,
}

/// Returns the expiry of a lease in whole milliseconds, rounded up, as Redis expires keys.
fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let micros = (now + ttl).as_micros();
    Timestamp::from_micros(micros.saturating_add(999).div_euclid(1000).saturating_mul(1000))
}
