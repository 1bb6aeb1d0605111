//! What a holder can prove about its lease, without asking the store.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::store_clock::{Leaps, Moment, StoreTime};
use crate::Timestamp;
use crate::util::clock::Clock;
use crate::util::lock;
use crate::util::watched::Flag;

/// How long a lease can be relied on, counted from before its last confirmation was asked for, with a
/// margin taken off: whoever trusts it stops before the store lets anybody else in.
pub(crate) struct Proof {
    wall: Arc<dyn Clock>,
    leaps: Arc<Leaps>,
    /// Whether somebody will ask the store when the lease is in doubt.
    kept_alive: bool,
    confirmed: Mutex<Confirmed>,
    lost: Flag,
    doubt: Notify,
    waiting: Mutex<Option<Waker>>,
}

#[derive(Clone, Copy)]
struct Confirmed {
    at: Instant,
    wall: Timestamp,
    deadline: Instant,
    margin: Duration,
}

#[derive(PartialEq)]
enum Worth {
    Everything,
    Doubtful,
    Nothing,
}

impl Proof {
    pub(crate) fn new(
        time: &StoreTime,
        kept_alive: bool,
        margin: Duration,
        sent: Moment,
        remaining: Duration,
    ) -> Self {
        let deadline = sent.steady + remaining.saturating_sub(margin);
        let confirmed = Confirmed { at: sent.steady, wall: sent.wall, deadline, margin };
        Self {
            wall: time.wall().clone(),
            leaps: time.leaps().clone(),
            kept_alive,
            confirmed: Mutex::new(confirmed),
            lost: Flag::default(),
            doubt: Notify::new(),
            waiting: Mutex::new(None),
        }
    }

    /// The store said, to a request sent then, that the lease lasts so much longer.
    pub(crate) fn confirm(&self, sent: Moment, remaining: Duration) {
        let mut confirmed = lock(&self.confirmed);
        let margin = confirmed.margin;
        // Not the later of both: what the store says last counts, also if it is less.
        let deadline = sent.steady + remaining.saturating_sub(margin);
        *confirmed = Confirmed { at: sent.steady, wall: sent.wall, deadline, margin };
        drop(confirmed);
        self.wake();
    }

    /// The next extension asks for another ttl, which may be shorter, and counts even if its answer is lost.
    pub(crate) fn set_ttl(&self, now: Moment, margin: Duration, ttl: Duration) {
        let mut confirmed = lock(&self.confirmed);
        let deadline = now.steady + ttl.saturating_sub(margin);
        confirmed.deadline = confirmed.deadline.min(deadline);
        confirmed.margin = margin;
    }

    pub(crate) fn confirmed_at(&self) -> Instant {
        lock(&self.confirmed).at
    }

    pub(crate) fn deadline(&self) -> Instant {
        lock(&self.confirmed).deadline
    }

    pub(crate) fn is_lost(&self) -> bool {
        // To look at the wall clock, too, takes twice as long, and says nothing of a lease that is kept alive.
        self.is_over(self.deadline(), Instant::now()) || (!self.kept_alive && self.worth() == Worth::Nothing)
    }

    /// Neither lost nor in doubt.
    pub(crate) fn is_certain(&self) -> bool {
        self.worth() == Worth::Everything
    }

    /// The machine may have slept through the lease, and only the store can tell.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.worth() == Worth::Doubtful
    }

    fn is_over(&self, deadline: Instant, now: Instant) -> bool {
        self.lost.is_raised() || now >= deadline
    }

    fn worth(&self) -> Worth {
        let confirmed = *lock(&self.confirmed);
        let now = Instant::now();
        if self.is_over(confirmed.deadline, now) {
            return Worth::Nothing;
        }
        // The steady clock stands still in a suspended machine, and the wall clock does not.
        let passed = self.wall.now().since(confirmed.wall);
        // In a paused virtual machine both do, and only the store's clock shows it.
        let slept = passed > now.duration_since(confirmed.at) + confirmed.margin
            || self.leaps.put_in_doubt(confirmed.at);
        match (slept, self.kept_alive) {
            (false, _) => Worth::Everything,
            (true, true) => Worth::Doubtful,
            (true, false) => Worth::Nothing,
        }
    }

    pub(crate) fn lose(&self) {
        self.lost.raise();
        self.wake();
    }

    /// Resolves when the lease is known to be lost.
    pub(crate) async fn lost(&self) {
        self.lost.raised().await;
    }

    /// Resolves when a run waits for the lease to be confirmed.
    pub(crate) async fn in_doubt(&self) {
        self.doubt.notified().await;
    }

    /// Before each poll of a job: `Ready(true)` to go on, `Ready(false)` to stop for good.
    pub(crate) fn poll_valid(&self, context: &Context<'_>) -> Poll<bool> {
        match self.worth() {
            Worth::Everything => Poll::Ready(true),
            Worth::Nothing => Poll::Ready(false),
            Worth::Doubtful => {
                *lock(&self.waiting) = Some(context.waker().clone());
                self.doubt.notify_one();
                // Whoever decided between the two looks found nobody to wake.
                if self.lost.is_raised() { Poll::Ready(false) } else { Poll::Pending }
            }
        }
    }

    fn wake(&self) {
        if let Some(waker) = lock(&self.waiting).take() {
            waker.wake();
        }
    }
}
