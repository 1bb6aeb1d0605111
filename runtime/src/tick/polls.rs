//! The polls of a run: whether it has begun, and whether it is in one that does not end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::util::watched::Flag;

/// Between the claim and the first poll of its function a run is waiting, and can be revoked: one of both happens, never
/// both.
#[derive(Default)]
pub(crate) struct Polls {
    phase: AtomicU8,
    /// While it is raised, a run that is waiting does not begin.
    forbidden: Arc<Flag>,
    changed: Notify,
    since: Mutex<Option<Instant>>,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const REVOKED: u8 = 2;

impl Polls {
    /// The polls of a run that does not begin once this flag is raised.
    pub(crate) fn unless(forbidden: Arc<Flag>) -> Self {
        Self { forbidden, ..Self::default() }
    }

    /// A poll, until the returned value is dropped; `None` if the run was revoked.
    pub(crate) fn begin(&self) -> Option<InProgress<'_>> {
        if self.phase() == WAITING && self.forbidden.is_raised() {
            self.revoke();
        }
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

    /// Resolves when a run that is waiting must not begin.
    pub(crate) async fn forbidden(&self) {
        self.forbidden.raised().await;
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

    #[tokio::test]
    async fn run_that_has_not_begun_when_it_is_forbidden_never_begins() {
        let forbidden = Arc::<Flag>::default();
        let (begun, waiting) = (Polls::unless(forbidden.clone()), Polls::unless(forbidden.clone()));
        assert!(begun.begin().is_some());
        forbidden.raise();
        assert!(begun.begin().is_some(), "a run that has begun is polled again");
        assert!(waiting.begin().is_none() && !waiting.begun().await);
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
