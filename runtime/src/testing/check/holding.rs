use std::sync::Arc;

use crate::Timestamp;

/// The time during which a lease was used: from the first call under it until its holder's future was gone.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) server: Arc<str>,
    pub(super) fence: i64,
    pub(super) tick: Option<Timestamp>,
    pub(super) attempt: u32,
    pub(super) began: u64,
    /// The numbers of the tries, as they were called.
    pub(super) retries: Vec<u32>,
    /// When its holder took steps, from the first call on.
    pub(super) steps: Vec<u64>,
    /// `None` while a call is in progress at the end of the history.
    pub(super) ended: Option<u64>,
}

impl Holding {
    pub(super) fn is_active_at(&self, instant: u64) -> bool {
        self.began <= instant && self.ended.is_none_or(|ended| ended > instant)
    }
}
