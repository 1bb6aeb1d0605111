//! Tracks the polls of a job's function: whether the first one has begun, and how long the current one takes.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::util::lock;
use crate::util::watched::Flag;

/// A try is waiting until the first poll of its function, and can be revoked until then: it begins or is
/// revoked, never both.
#[derive(Default)]
pub(crate) struct PollTracker {
    phase: AtomicU8,
    /// Once it is raised, a try that is waiting does not begin.
    forbidden: Arc<Flag>,
    changed: Notify,
    /// When the current poll began.
    since: Mutex<Option<Instant>>,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const REVOKED: u8 = 2;

impl PollTracker {
    /// The polls of a try that does not begin once this flag is raised.
    pub(crate) fn unless(forbidden: Arc<Flag>) -> Self {
        Self { forbidden, ..Self::default() }
    }

    /// Begins a poll, which lasts until the returned value is dropped; `None` if the try was revoked.
    pub(crate) fn begin(&self) -> Option<PollGuard<'_>> {
        if self.phase() == WAITING && self.forbidden.is_raised() {
            self.revoke();
        }
        let begun = self.leave_waiting(BEGUN).is_ok() || self.phase() == BEGUN;
        begun.then(|| {
            *self.since() = Some(Instant::now());
            PollGuard(self)
        })
    }

    /// Revokes a try that has not begun; `false` if it has.
    pub(crate) fn revoke(&self) -> bool {
        self.leave_waiting(REVOKED).is_ok() || self.phase() == REVOKED
    }

    /// Waits until a try that is waiting must not begin any more.
    pub(crate) async fn forbidden(&self) {
        self.forbidden.raised().await;
    }

    /// Waits until the try has begun, which returns `true`, or was revoked.
    pub(crate) async fn begun(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            match self.phase() {
                WAITING => changed.await,
                phase => return phase == BEGUN,
            }
        }
    }

    /// The time since the current poll began.
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
        lock(&self.since)
    }
}

/// A poll in progress.
pub(crate) struct PollGuard<'a>(&'a PollTracker);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        *self.0.since() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn try_that_has_begun_is_not_revoked() {
        let polls = PollTracker::default();
        assert!(polls.begin().is_some());
        assert!(!polls.revoke());
        assert!(polls.begun().await);
        assert!(polls.begin().is_some(), "it is polled again");
    }

    #[tokio::test]
    async fn try_that_was_revoked_never_begins() {
        let polls = PollTracker::default();
        assert!(polls.revoke());
        assert!(polls.begin().is_none());
        assert!(polls.revoke() && !polls.begun().await);
    }

    #[tokio::test]
    async fn try_that_has_not_begun_when_it_is_forbidden_never_begins() {
        let forbidden = Arc::<Flag>::default();
        let (begun, waiting) =
            (PollTracker::unless(forbidden.clone()), PollTracker::unless(forbidden.clone()));
        assert!(begun.begin().is_some());
        forbidden.raise();
        assert!(begun.begin().is_some(), "a run that has begun is polled again");
        assert!(waiting.begin().is_none() && !waiting.begun().await);
    }

    #[test]
    fn poll_that_has_ended_is_not_in_progress() {
        let polls = PollTracker::default();
        let poll = polls.begin();
        assert!(polls.in_progress_for().is_some());
        drop(poll);
        assert!(polls.in_progress_for().is_none());
    }
}
