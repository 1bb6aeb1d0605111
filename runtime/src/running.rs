//! The runs that go on on this server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which jobs run here at the moment, by fence.
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<i64, String>>);

impl Running {
    /// Counts a run until the returned value is dropped.
    pub(crate) fn enter(&self, fence: i64, key: &str) -> Entered<'_> {
        self.runs().insert(fence, key.to_owned());
        Entered { running: self, fence }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.runs().values().cloned().collect()
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<i64, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Entered<'a> {
    running: &'a Running,
    fence: i64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.running.runs().remove(&self.fence);
    }
}
