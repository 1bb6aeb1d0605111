//! The polls of a run: whether it has begun, and whether it is in one that does not end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Between the claim and the first poll of its function a run is waiting, and can be revoked: one of both happens, never
/// both.
#[derive(Default)]
pub(crate) struct Polls {
    phase: AtomicU8,
    changed: Notify,
    since: Mutex<Option<Instant>>,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const REVOKED: u8 = 2;

impl Polls {
    /// A poll, until the returned value is dropped; `None` if the run was revoked.
    pub(crate) fn begin(&self) -> Option<InProgress<'_>> {
        let begun = self.leave_waiting(BEGUN).is_ok() || self.phase() == BEGUN;
        begun.then(|| {
            *self.since() = Some(Instant::now());
            InProgress(self)
        })
    }

    /// Makes sure that a run never begins; `false` if it has.
    pub(crate) fn revoke(&self) -> bool {
        self.leave_waiting(REVOKED).is_ok() || self.phase() == REVOKED
    }

    /// Waits until the run has begun, or was revoked: whether it has begun.
    pub(crate) async fn begun(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            match self.phase() {
                WAITING => changed.await,
                phase => return phase == BEGUN,
            }
        }
    }

    /// How long the current poll has been in progress.
    pub(crate) fn in_progress_for(&self) -> Option<Duration> {
        self.since().map(|since| since.elapsed())
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::SeqCst)
    }

    fn leave_waiting(&self, phase: u8) -> Result<(), u8> {
        self.phase.compare_exchange(WAITING, phase, Ordering::SeqCst, Ordering::SeqCst)?;
        self.changed.notify_waiters();
        Ok(())
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One poll.
pub(crate) struct InProgress<'a>(&'a Polls);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        *self.0.since() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn run_that_has_begun_is_not_revoked() {
        let polls = Polls::default();
        assert!(polls.begin().is_some());
        assert!(!polls.revoke());
        assert!(polls.begun().await);
        assert!(polls.begin().is_some(), "it is polled again");
    }

    #[tokio::test]
    async fn run_that_was_revoked_never_begins() {
        let polls = Polls::default();
        assert!(polls.revoke());
        assert!(polls.begin().is_none());
        assert!(polls.revoke() && !polls.begun().await);
    }

    #[test]
    fn poll_that_has_ended_is_not_in_progress() {
        let polls = Polls::default();
        let poll = polls.begin();
        assert!(polls.in_progress_for().is_some());
        drop(poll);
        assert!(polls.in_progress_for().is_none());
    }
}
