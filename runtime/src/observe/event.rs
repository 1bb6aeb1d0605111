//! Events: everything that happens on a server, as values.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::ReusableBoxFuture;

use crate::Timestamp;
use crate::events::Taken;
use crate::fleet::{HeldLock, Holder, Pause};

/// Something that happened on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When it happened, by the store's clock as this server knows it.
    pub at: Timestamp,
    /// The key of the job or lock; empty for an event about the server itself.
    pub key: String,
    /// What happened.
    pub kind: EventKind,
}

/// What happened on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A run started here.
    Started(RunRef),
    /// A run started here that takes over a tick which another server, or an earlier lease, left unfinished.
    TakenOver(RunRef),
    /// A tick did not run here.
    Skipped {
        /// The tick.
        tick: Timestamp,
        /// Why it did not run.
        reason: SkipReason,
    },
    /// A run returned without an error.
    Succeeded {
        /// The run.
        run: RunRef,
        /// How long it took.
        took: Duration,
    },
    /// A run returned an error, and no retry is left.
    Failed {
        /// The run.
        run: RunRef,
        /// How long it took, with all tries.
        took: Duration,
        /// The error's text.
        error: String,
    },
    /// A run panicked, and no retry is left.
    Panicked {
        /// The run.
        run: RunRef,
        /// How long it took, with all tries.
        took: Duration,
        /// The panic's message.
        error: String,
    },
    /// A try failed, and the function is called again after a pause.
    Retrying {
        /// The run.
        run: RunRef,
        /// The number of the retry: 1 for the first.
        retry: u32,
        /// The error's text.
        error: String,
        /// The time until the retry.
        pause: Duration,
    },
    /// A run took longer than its timeout. It was cancelled, or it
    /// [returned too late](EventKind::ReturnedAfterTimeout).
    TimedOut {
        /// The run.
        run: RunRef,
        /// How long it took until its future was gone.
        took: Duration,
    },
    /// A run was cancelled, by the shutdown or by an operator.
    Cancelled {
        /// The run.
        run: RunRef,
        /// How long it took until its future was gone.
        took: Duration,
    },
    /// A run was cancelled because its lease could no longer be proved.
    LeaseLost {
        /// The run.
        run: RunRef,
        /// How long it took until its future was gone.
        took: Duration,
    },
    /// A run takes more than twice as long as the job's runs usually do. Reported once per run.
    Overrun {
        /// The run.
        run: RunRef,
        /// The mean duration of the job's successful runs.
        usual: Duration,
    },
    /// A tick was not started within its grace, as far as this server knows. Reported once per tick.
    Overdue {
        /// The tick.
        tick: Timestamp,
    },
    /// Ticks passed that no server ran or skipped: no server or no store was available, or the ticks waited
    /// in vain for a long run to end. Reported by the server that wins the next tick.
    Missed {
        /// How many ticks; counting stops at 1000.
        count: usize,
        /// The first of them.
        first: Timestamp,
        /// The end of the gap: the next tick that was claimed or skipped, usually the one that was won; or
        /// the instant at which the job was resumed or its schedule changed.
        won: Timestamp,
    },
    /// Another server has another schedule for the job: during a deploy, or because a server was not updated.
    SchedulesDiffer {
        /// This server's schedule.
        here: String,
        /// The other server's schedule.
        there: String,
        /// The other server.
        server: String,
    },
    /// This machine's clock differs from the store's by more than a second. Ticks follow the store's clock.
    ClockDiffers {
        /// How far this machine's clock is ahead, in microseconds.
        ahead_micros: i64,
    },
    /// The store does not answer, or refuses requests.
    StoreUnavailable {
        /// The error.
        error: String,
    },
    /// The store answers again.
    StoreBack,
    /// The application's runtime polls no task: a deadlock, or code that blocks. Meanwhile this server claims
    /// nothing and is not [ready](crate::Health).
    ApplicationBlocked,
    /// The application's runtime polls tasks again.
    ApplicationBack,
    /// A run has been in one poll for longer than its ttl: code without an `await`. It keeps its lease, so no
    /// other server runs the job; move such code to `tokio::task::spawn_blocking`. Reported once per run.
    RunBlocked(RunRef),
    /// A run could not be cancelled at its timeout, because its code did not reach an `await`, and returned
    /// later. It is recorded as [timed out](EventKind::TimedOut), whatever it returned; move blocking code to
    /// `tokio::task::spawn_blocking`.
    ReturnedAfterTimeout(RunRef),
    /// A manual lock, a slot or a leadership could no longer be proved, and its holder was notified.
    LockLost {
        /// The fence of its lease.
        fence: i64,
    },
    /// An operator broke a lock, or slots, on this server.
    LockBroken {
        /// The locks that were held.
        held: Vec<HeldLock>,
    },
    /// This listener was too slow, and this many events before this one are lost.
    EventsLost(u64),
}

/// The run that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The run's tick; `None` for a manual run.
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
    /// The key was held: by the previous run, or by another program.
    Held(Holder),
    /// The tick was decided already: another server runs it, or it was skipped for all servers.
    Taken(Taken),
    /// A newer tick was decided already.
    Superseded(Timestamp),
    /// A tick in the future of the store's clock was claimed: the clock has gone back since.
    /// [`Jobs::reset`](crate::Jobs::reset) ends that.
    MarkAhead(Timestamp),
    /// The tick lies before the job's registration.
    Unregistered,
    /// The job is paused.
    Paused(Pause),
    /// The tick's grace was over, by this much.
    Late(Duration),
    /// Every slot for runs on this server stayed taken. Another server may have run the tick.
    Busy,
    /// The tick was won, but the store's answer came too late to start it safely.
    WonTooLate,
    /// The tick was won, but too few replicas of the store had the claim while it could still start.
    NotReplicated(String),
    /// A run of the job that has lost its lease is still in progress here.
    StillRunning,
    /// The tick was won, but the application's runtime did not poll the job's function in time, so the lease
    /// was released.
    ApplicationBlocked,
    /// The store did not answer while the tick could still start.
    StoreUnavailable(String),
    /// This server is shutting down.
    Stopping,
}

/// How many events are kept for a slow listener before the oldest are dropped.
const KEPT: usize = 512;

pub(crate) struct EventSender(broadcast::Sender<Event>);

impl EventSender {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }

    /// Sends an event without waiting. A listener that is too slow loses the oldest events.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            let _nobody_listens_any_more = self.0.send(event());
        }
    }

    pub(crate) fn subscribe(&self, now: Timestamp) -> Events {
        Events { next: ReusableBoxFuture::new(receive(self.0.subscribe())), last_at: now }
    }
}

/// The events of a server from now on: a [`Stream`], or call [`next`](Events::next).
///
/// A slow listener delays nothing. It loses the oldest events, and receives their number as
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
