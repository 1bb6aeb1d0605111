//! The store's clock, as this server estimates it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::Timestamp;
use crate::util::clock::Clock;
use crate::util::lock;

/// An estimate of the store's time: the time of one reply, plus the time since then by this server's steady
/// clock. It does not depend on a wall clock that is wrong or is set while the server runs.
pub(crate) struct StoreClock {
    wall: Arc<dyn Clock>,
    anchor: Mutex<Anchor>,
    steps: watch::Sender<()>,
    forward_jumps: Arc<ForwardJumps>,
}

/// Remembers that the store's clock was found far ahead of the estimate: this machine may have been paused,
/// with both of its clocks. Leases that were confirmed before must be confirmed again.
#[derive(Default)]
pub(crate) struct ForwardJumps(Mutex<Option<ForwardJump>>);

/// The request whose answer showed the jump.
#[derive(Clone, Copy)]
struct ForwardJump {
    sent: Instant,
    received: Instant,
}

impl ForwardJumps {
    /// Whether a confirmation by a request sent at this instant is doubtful: the pause may have been after
    /// the request was applied. The answer that showed the pause is newer than it.
    pub(crate) fn makes_doubtful(&self, sent: Instant) -> bool {
        self.last().is_some_and(|jump| jump.received > sent && jump.sent != sent)
    }

    fn note(&self, jump: ForwardJump) {
        *self.last() = Some(jump);
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<ForwardJump>> {
        lock(&self.0)
    }
}

/// How far the store's clock must be ahead of the estimate, beyond the uncertainty of a reply, to count as a
/// jump.
const FORWARD_JUMP: Duration = Duration::from_millis(200);

#[derive(Clone, Copy)]
struct Anchor {
    instant: Instant,
    time: Timestamp,
    error: Duration,
}

/// Both of this machine's clocks, read together. Read before a request, so that a suspend during it is
/// noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) steady: Instant,
    pub(crate) wall: Timestamp,
}

/// When the estimate changes by more than this, sleepers are woken to plan anew.
const STEP: Duration = Duration::from_millis(50);

/// How fast two clocks may drift apart: one part in this many.
const DRIFT: u32 = 5_000;

impl StoreClock {
    /// Starts with the wall clock's time, until the store's first reply.
    pub(crate) fn new(wall: Arc<dyn Clock>) -> Self {
        let anchor = Anchor { instant: Instant::now(), time: wall.now(), error: Duration::from_secs(3600) };
        Self {
            wall,
            anchor: Mutex::new(anchor),
            steps: watch::Sender::new(()),
            forward_jumps: Arc::default(),
        }
    }

    /// The store's time, as far as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        let anchor = self.anchor();
        anchor.time + anchor.instant.elapsed()
    }

    /// The instant at which the store's clock will show this time.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        Instant::now() + time.since(self.now())
    }

    /// The machine's own clock, to notice a suspend.
    pub(crate) fn wall(&self) -> &Arc<dyn Clock> {
        &self.wall
    }

    /// The last jump of the store's clock.
    pub(crate) fn forward_jumps(&self) -> &Arc<ForwardJumps> {
        &self.forward_jumps
    }

    pub(crate) fn read_clocks(&self) -> ClockReading {
        ClockReading { steady: Instant::now(), wall: self.wall.now() }
    }

    /// Learns from a reply: it was decided at `time`, somewhere between `sent` and now.
    ///
    /// It counts as decided now. The estimate is behind the store's clock by at most the reply's travel time
    /// and never ahead of it, so a server that follows it does not claim a tick before it is due.
    pub(crate) fn learn(&self, sent: Instant, time: Timestamp) {
        let mut anchor = lock(&self.anchor);
        // Read under the lock: no reply that is known was received later.
        let received = Instant::now();
        let error = received.duration_since(sent);
        let fresh = Anchor { instant: received, time, error };
        let age = received.duration_since(anchor.instant);
        let known = anchor.time + age;
        let doubt = anchor.error + age / DRIFT;
        let apart = time.since(known).max(known.since(time));
        let wrong = apart > doubt + error + STEP;
        if time.since(known) > doubt + error + FORWARD_JUMP {
            self.forward_jumps.note(ForwardJump { sent, received });
        }
        let better = wrong || error <= doubt;
        if better {
            *anchor = fresh;
        }
        drop(anchor);
        if better && apart > STEP {
            self.wake_sleepers();
        }
    }

    /// Wakes every sleeper, to read the clock again.
    pub(crate) fn wake_sleepers(&self) {
        self.steps.send_replace(());
    }

    /// Receives every correction of the clock from now on.
    pub(crate) fn corrections(&self) -> watch::Receiver<()> {
        self.steps.subscribe()
    }

    /// Sleeps until the store's clock shows this time. Returns `false` early if the clock was corrected since
    /// the last `false`.
    pub(crate) async fn sleep_until(&self, time: Timestamp, corrections: &mut watch::Receiver<()>) -> bool {
        loop {
            let wait = time.since(self.now());
            tokio::select! {
                biased;
                _ = corrections.changed() => return false,
                () = std::future::ready(()), if wait.is_zero() => return true,
                () = tokio::time::sleep(wait), if !wait.is_zero() => {}
            }
        }
    }

    fn anchor(&self) -> Anchor {
        *lock(&self.anchor)
    }
}
