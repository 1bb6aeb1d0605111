//! What happens on a server, as it happens.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::ReusableBoxFuture;

use crate::Timestamp;
use crate::events::Taken;
use crate::fleet::{HeldLock, Holder};

/// Something that happened on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, by the store's clock as this server knows it.
    pub at: Timestamp,
    /// The key of the job, or of the lock, it is about; empty if it is about the server.
    pub key: String,
    /// What happened.
    pub kind: EventKind,
}

/// What happened on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A run began here.
    Started(RunRef),
    /// A run began here that finishes what another server, or an earlier lease, left unfinished.
    TakenOver(RunRef),
    /// A tick did not run here.
    Skipped {
        /// The tick.
        tick: Timestamp,
        /// Why.
        reason: SkipReason,
    },
    /// A run returned without an error.
    Succeeded {
        /// Which one.
        run: RunRef,
        /// How long it took.
        took: Duration,
    },
    /// A run returned an error, and no retry is left.
    Failed {
        /// Which one.
        run: RunRef,
        /// The error's text.
        error: String,
    },
    /// A run panicked, and no retry is left.
    Panicked {
        /// Which one.
        run: RunRef,
        /// The panic's message.
        error: String,
    },
    /// A try failed, and its function is called again after a pause.
    Retrying {
        /// Which run.
        run: RunRef,
        /// The number of the retry: 1 for the first.
        retry: u32,
        /// The error's text.
        error: String,
        /// How long until then.
        pause: Duration,
    },
    /// A run took longer than its timeout and was cancelled.
    TimedOut(RunRef),
    /// A run was cancelled, by the shutdown or by an operator.
    Cancelled(RunRef),
    /// A run's lease could not be proved any longer.
    LeaseLost(RunRef),
    /// A run takes more than twice as long as the job's runs usually do. Told once per run.
    Overrun {
        /// Which one.
        run: RunRef,
        /// The mean duration of its successful runs.
        usual: Duration,
    },
    /// A tick was not started within its grace, as far as this server knows. Told once per tick.
    Overdue {
        /// The tick.
        tick: Timestamp,
    },
    /// Ticks passed that nobody ran or skipped: no server was there, or no store, or they waited in vain behind a long
    /// run. Told by the server that won the next one.
    Missed {
        /// How many; counting stops at 1000.
        count: usize,
        /// The first of them.
        first: Timestamp,
        /// What they lie before: the next tick that was claimed or skipped, most often the one that was won; or the instant at
        /// which the job was resumed, or its schedule changed.
        won: Timestamp,
    },
    /// Another server follows another schedule: a deploy, or a server that was left behind.
    SchedulesDiffer {
        /// This server's schedule.
        here: String,
        /// The other one's.
        there: String,
        /// The other server.
        server: String,
    },
    /// This machine's clock differs from the store's by more than a second. Ticks follow the store's.
    ClockDiffers {
        /// How far it is ahead, in microseconds.
        ahead_micros: i64,
    },
    /// The store does not answer, or refuses.
    StoreUnavailable {
        /// The error.
        error: String,
    },
    /// The store answers again.
    StoreBack,
    /// The application's runtime polls no task: a deadlock, or code that blocks. This server claims nothing meanwhile, and
    /// is not [ready](crate::Health).
    ApplicationBlocked,
    /// The application's runtime polls tasks again.
    ApplicationBack,
    /// A run has been in one poll for longer than its ttl: code without an `await`. It keeps its lease, so no other server
    /// runs the job; move such code to `tokio::task::spawn_blocking`. Told once per run.
    RunBlocked(RunRef),
    /// A lock by hand, a slot or a leadership could not be proved any longer, and its holder was told.
    LockLost {
        /// The fence of its lease.
        fence: i64,
    },
    /// An operator broke a lock, or slots, on this server.
    LockBroken {
        /// What was held.
        held: Vec<HeldLock>,
    },
    /// This listener was too slow, and so many events before this one are gone.
    EventsLost(u64),
}

/// Which run an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The tick it runs for; `None` for a run by hand.
    pub tick: Option<Timestamp>,
    /// The fence of its lease.
    pub fence: i64,
    /// 1 for a tick's first run, 2 for the first takeover, and so on.
    pub attempt: u32,
}

/// Why a tick did not run on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The last run, or another program's lock, was still there.
    Held(Holder),
    /// It was decided already: another server runs it, or it was skipped for all.
    Taken(Taken),
    /// A newer tick was decided already.
    Superseded(Timestamp),
    /// A tick in the future of the store's clock was claimed: the clock has gone back since.
    /// [`Jobs::reset`](crate::Jobs::reset) ends that.
    MarkAhead(Timestamp),
    /// It lies before the job was known.
    Unregistered,
    /// The job is paused.
    Paused,
    /// Its grace was over.
    Late(Duration),
    /// Every place among this server's runs stayed taken; other servers may have run it.
    Busy,
    /// It was won, but the store's answer came too late to start it safely.
    WonTooLate,
    /// It was won, but too few replicas of the store had the claim while it could still start.
    NotReplicated(String),
    /// A run of the job that has lost its lease still goes on here.
    StillRunning,
    /// It was won, but the application's runtime did not poll the job's function in time, so it was given back.
    ApplicationBlocked,
    /// The store could not be asked while the tick could still start.
    StoreUnavailable(String),
    /// This server is shutting down.
    Stopping,
}

/// So many events wait for a slow listener before the oldest are dropped.
const KEPT: usize = 512;

pub(crate) struct EventSender(broadcast::Sender<Event>);

impl EventSender {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }

    /// Never waits: a listener that is too slow loses the oldest.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            let _nobody_listens_any_more = self.0.send(event());
        }
    }

    pub(crate) fn subscribe(&self, now: Timestamp) -> Events {
        Events { next: ReusableBoxFuture::new(receive(self.0.subscribe())), last_at: now }
    }
}

/// The events of a server from now on: a [`Stream`], or ask for the [`next`](Events::next) one.
///
/// A listener that is slow delays nobody. It loses the oldest events, and is told how many:
/// [`EventKind::EventsLost`].
pub struct Events {
    next: ReusableBoxFuture<'static, Received>,
    last_at: Timestamp,
}

type Received = (Result<Event, RecvError>, broadcast::Receiver<Event>);

async fn receive(mut events: broadcast::Receiver<Event>) -> Received {
    (events.recv().await, events)
}

impl Events {
    /// Waits for the next event; `None` when the scheduler has ended.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|polling| Pin::new(&mut *self).poll_next(polling)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<Option<Event>> {
        let (received, events) = ready!(self.next.poll(polling));
        self.next.set(receive(events));
        Poll::Ready(match received {
            Ok(event) => {
                self.last_at = event.at;
                Some(event)
            }
            Err(RecvError::Lagged(lost)) => {
                Some(Event { at: self.last_at, key: String::new(), kind: EventKind::EventsLost(lost) })
            }
            Err(RecvError::Closed) => None,
        })
    }
}
