//! One connection for all callers of a store: opened when it is first needed, and again after an error and a pause.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::reconnect::ReconnectBackoff;
use crate::util::lock;

/// If an attempt takes longer, a second, hedged attempt begins. Most connections are open by then, and a lease of two
/// seconds has not expired.
const LONG: Duration = Duration::from_millis(300);

/// Opens connections, and classifies the errors that they return.
pub(crate) trait Connect: Clone + Send + 'static {
    type Connection: Clone + Send + Sync + 'static;
    type Error: Clone + Send + Sync + 'static;

    fn connect(self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// The error if the runtime ended before the connection was open.
    fn abandoned() -> Self::Error;

    fn fault(error: &Self::Error) -> ConnectionFault;

    /// The fault of a connection if a caller stops waiting for its answer.
    const FAULT_IF_DROPPED: ConnectionFault = ConnectionFault::Silent;

    /// Whether a connection is known to be closed before it is used.
    fn is_closed(_connection: &Self::Connection) -> bool {
        false
    }
}

/// What an error shows about its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    /// The connection works.
    None,
    /// It did not answer. It is replaced unless it answered another caller meanwhile.
    Silent,
    /// It is broken, or leads to the wrong server.
    Broken,
}

/// A connection that is opened when it is needed, once for all callers that wait for it.
pub(crate) struct SharedConnection<C: Connect> {
    slot: Mutex<ConnectionSlot<C>>,
    /// Notifies callers that wait for the end of a pause when a connection is being opened.
    attempted: Notify,
    /// Number of answers from the server.
    answers: AtomicU64,
}

struct ConnectionSlot<C: Connect> {
    /// The connection, and the instant at which its opening began.
    current: Option<(ConnectionState<C>, Instant)>,
    backoff: ReconnectBackoff,
}

/// A connection that is being opened, is open, or could not be opened. The channel is its identity.
type ConnectionState<C> = watch::Receiver<Option<Result<<C as Connect>::Connection, <C as Connect>::Error>>>;

impl<C: Connect> SharedConnection<C> {
    pub(crate) fn new() -> Self {
        let slot = ConnectionSlot { current: None, backoff: ReconnectBackoff::new() };
        Self { slot: Mutex::new(slot), attempted: Notify::new(), answers: AtomicU64::new(0) }
    }

    /// Runs one exchange over the shared connection, and drops the connection if it is faulty.
    pub(crate) async fn exchange<T, F>(
        &self,
        connector: &C,
        talk: impl FnOnce(C::Connection) -> F,
    ) -> Result<T, C::Error>
    where
        F: Future<Output = Result<T, C::Error>>,
    {
        let mut opening = self.opening(connector).await;
        let opened = opening.wait_for(Option::is_some).await.ok().and_then(|opened| opened.clone());
        // A caller that gets no answer, or stops waiting for it, does not trust the connection, unless it answered another
        // caller meanwhile.
        let answers = self.answers.load(Ordering::Relaxed);
        let mut guard = ExchangeGuard { of: opening.clone(), on: self, answers, fault: C::FAULT_IF_DROPPED };
        let opened = opened.unwrap_or_else(|| Err(C::abandoned()));
        let connection = opened.inspect_err(|_| guard.fault = ConnectionFault::Broken)?;
        let result = talk(connection).await;
        guard.fault = result.as_ref().err().map_or(ConnectionFault::None, C::fault);
        if result.is_ok() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Guards a caller that shares an exchange with others, and may stop waiting before them. `None` if no connection is open:
    /// one that is still being opened has not failed to answer.
    #[cfg(feature = "redis")]
    pub(crate) fn guard(&self) -> Option<ExchangeGuard<'_, C>> {
        let of = lock(&self.slot).current.as_ref()?.0.clone();
        if !matches!(&*of.borrow(), Some(Ok(_))) {
            return None;
        }
        let answers = self.answers.load(Ordering::Relaxed);
        Some(ExchangeGuard { of, on: self, answers, fault: C::FAULT_IF_DROPPED })
    }

    /// Drops the connection. The next one is opened without a pause.
    #[cfg(any(feature = "mysql", feature = "redis"))]
    pub(crate) fn forget(&self) {
        lock(&self.slot).current = None;
    }

    /// Returns the current connection, or a new one after the pause.
    async fn opening(&self, connector: &C) -> ConnectionState<C> {
        loop {
            let (until, attempted) = match self.opening_or_pause(connector) {
                Ok(opening) => return opening,
                Err(pause) => pause,
            };
            let guard = PauseGuard(self);
            tokio::select! {
                () = sleep_until(until) => {}
                () = attempted => {}
            }
            std::mem::forget(guard);
        }
    }

    /// Returns the end of the pause as `Err` if it is too early for another attempt, unless one is made before.
    fn opening_or_pause(&self, connector: &C) -> Result<ConnectionState<C>, (Instant, Notified<'_>)> {
        let mut slot = lock(&self.slot);
        slot.drop_if(
            |opening| matches!(&*opening.borrow(), Some(Ok(connection)) if C::is_closed(connection)),
        );
        if let Some((opening, _)) = &slot.current {
            return Ok(opening.clone());
        }
        if let Some(until) = slot.backoff.not_before() {
            return Err((until, self.attempted.notified()));
        }
        let (opened, opening) = watch::channel(None);
        let connector = connector.clone();
        // In a task of its own, so that it survives a caller that stops waiting.
        tokio::spawn(async move {
            let result = first_of_two(move || connector.clone().connect()).await;
            let _nobody_waits_any_longer = opened.send(Some(result));
        });
        slot.current = Some((opening.clone(), Instant::now()));
        self.attempted.notify_waiters();
        Ok(opening)
    }
}

impl<C: Connect> ConnectionSlot<C> {
    fn drop_if(&mut self, over: impl FnOnce(&ConnectionState<C>) -> bool) {
        if let Some((opening, since)) = self.current.take_if(|(opening, _)| over(opening)) {
            let was_open = matches!(&*opening.borrow(), Some(Ok(_)));
            self.backoff.lost(was_open.then(|| since.elapsed()));
        }
    }
}

/// Guards a caller that waits for the end of a pause. Dropped if the caller stops waiting.
struct PauseGuard<'a, C: Connect>(&'a SharedConnection<C>);

impl<C: Connect> Drop for PauseGuard<'_, C> {
    fn drop(&mut self) {
        lock(&self.0.slot).backoff.shorten();
    }
}

/// Guards a caller that waits for an answer, and drops the connection if it is faulty.
pub(crate) struct ExchangeGuard<'a, C: Connect> {
    of: ConnectionState<C>,
    on: &'a SharedConnection<C>,
    answers: u64,
    fault: ConnectionFault,
}

#[cfg(feature = "redis")]
impl<C: Connect> ExchangeGuard<'_, C> {
    /// The caller no longer waits for an answer.
    pub(crate) fn disarm(mut self) {
        self.fault = ConnectionFault::None;
    }
}

impl<C: Connect> Drop for ExchangeGuard<'_, C> {
    fn drop(&mut self) {
        let silent = self.on.answers.load(Ordering::Relaxed) == self.answers;
        if self.fault == ConnectionFault::Broken || (self.fault == ConnectionFault::Silent && silent) {
            lock(&self.on.slot).drop_if(|current| current.same_channel(&self.of));
        }
    }
}

/// Returns the result of the attempt that succeeds first. The second begins if the first takes long. If both fail,
/// returns the error of the first.
async fn first_of_two<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut first = pin!(attempt());
    if let Ok(result) = timeout(LONG, &mut first).await {
        return result;
    }
    let mut second = pin!(attempt());
    tokio::select! {
        biased;
        result = &mut first => match result {
            Err(error) => second.await.map_err(|_| error),
            done => done,
        },
        result = &mut second => if result.is_ok() { result } else { first.await },
    }
}

#[cfg(test)]
mod tests;
