//! How long a lease is valid, as its holder knows without asking the store.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::store_clock::{ClockReading, ForwardJumps, StoreClock};
use crate::Timestamp;
use crate::util::clock::Clock;
use crate::util::lock;
use crate::util::watched::Flag;

/// How long a holder can rely on its lease: from before the request of the last confirmation was sent, less a
/// margin. A holder that relies on it stops before the store grants the key to another one.
pub(crate) struct Validity {
    wall: Arc<dyn Clock>,
    forward_jumps: Arc<ForwardJumps>,
    /// Whether a keep-alive asks the store when the lease is doubtful.
    kept_alive: bool,
    confirmed: Mutex<Confirmation>,
    lost: Flag,
    doubt: Notify,
    waiting: Mutex<Option<Waker>>,
}

#[derive(Clone, Copy)]
struct Confirmation {
    at: Instant,
    wall: Timestamp,
    deadline: Instant,
    margin: Duration,
}

#[derive(PartialEq)]
enum Certainty {
    Certain,
    Doubtful,
    Lost,
}

impl Validity {
    pub(crate) fn new(
        time: &StoreClock,
        kept_alive: bool,
        margin: Duration,
        sent: ClockReading,
        remaining: Duration,
    ) -> Self {
        let deadline = sent.steady + remaining.saturating_sub(margin);
        let confirmed = Confirmation { at: sent.steady, wall: sent.wall, deadline, margin };
        Self {
            wall: time.wall().clone(),
            forward_jumps: time.forward_jumps().clone(),
            kept_alive,
            confirmed: Mutex::new(confirmed),
            lost: Flag::default(),
            doubt: Notify::new(),
            waiting: Mutex::new(None),
        }
    }

    /// The store confirmed, to a request sent then, that the lease lasts this much longer.
    pub(crate) fn confirm(&self, sent: ClockReading, remaining: Duration) {
        let mut confirmed = lock(&self.confirmed);
        let margin = confirmed.margin;
        // Not the later of both: the last confirmation counts, even if it is shorter.
        let deadline = sent.steady + remaining.saturating_sub(margin);
        *confirmed = Confirmation { at: sent.steady, wall: sent.wall, deadline, margin };
        drop(confirmed);
        self.wake();
    }

    /// The next extension has another ttl, which may be shorter, and may be applied even if its answer is
    /// lost.
    pub(crate) fn set_ttl(&self, now: ClockReading, margin: Duration, ttl: Duration) {
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
        // Reading the wall clock, too, takes twice as long, and does not decide for a lease that is kept
        // alive.
        self.is_over(self.deadline(), Instant::now())
            || (!self.kept_alive && self.certainty() == Certainty::Lost)
    }

    /// Neither lost nor doubtful.
    pub(crate) fn is_certain(&self) -> bool {
        self.certainty() == Certainty::Certain
    }

    /// The machine may have been suspended for longer than the lease: only the store knows.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.certainty() == Certainty::Doubtful
    }

    fn is_over(&self, deadline: Instant, now: Instant) -> bool {
        self.lost.is_raised() || now >= deadline
    }

    fn certainty(&self) -> Certainty {
        let confirmed = *lock(&self.confirmed);
        let before = Instant::now();
        // The steady clock stands still in a suspended machine, and the wall clock does not.
        let passed = self.wall.now().since(confirmed.wall);
        // In a paused virtual machine both stand still, and only the store's clock shows it.
        let slept = passed > before.duration_since(confirmed.at) + confirmed.margin
            || self.forward_jumps.makes_doubtful(confirmed.at);
        // Read last, and again: the process may have been stopped while it read the wall clock.
        if self.is_over(confirmed.deadline, Instant::now()) {
            return Certainty::Lost;
        }
        match (slept, self.kept_alive) {
            (false, _) => Certainty::Certain,
            (true, true) => Certainty::Doubtful,
            (true, false) => Certainty::Lost,
        }
    }

    pub(crate) fn lose(&self) {
        self.lost.raise();
        self.wake();
    }

    /// Waits until the lease is known to be lost.
    pub(crate) async fn lost(&self) {
        self.lost.raised().await;
    }

    /// Waits until a run waits for the lease to be confirmed.
    pub(crate) async fn in_doubt(&self) {
        self.doubt.notified().await;
    }

    /// Checks the lease before each poll of a job: `Ready(true)` to poll it, `Ready(false)` to stop for good.
    pub(crate) fn poll_valid(&self, context: &Context<'_>) -> Poll<bool> {
        match self.certainty() {
            Certainty::Certain => Poll::Ready(true),
            Certainty::Lost => Poll::Ready(false),
            Certainty::Doubtful => {
                *lock(&self.waiting) = Some(context.waker().clone());
                self.doubt.notify_one();
                // If the lease was lost between the two checks, no waker was registered yet.
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
