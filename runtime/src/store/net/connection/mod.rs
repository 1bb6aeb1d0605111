//! One connection for all callers of a store: opened when it is first needed, and anew after trouble and a pause.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::reconnect::ReconnectBackoff;
use crate::util::lock;

/// A set-up that takes longer may have fallen silent, and a second one begins. Most connections are open by then, and a
/// lease of two seconds has not ended.
const LONG: Duration = Duration::from_millis(300);

/// How a client opens a connection, and which errors speak against one.
pub(crate) trait Connect: Clone + Send + 'static {
    type Connection: Clone + Send + Sync + 'static;
    type Error: Clone + Send + Sync + 'static;

    fn connect(self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// The runtime that opened the connection went away before it was open.
    fn abandoned() -> Self::Error;

    fn fault(error: &Self::Error) -> Fault;

    /// What it says about a connection that somebody no longer waits for its answer.
    const FAULT_IF_DROPPED: Fault = Fault::Silent;

    /// Whether a connection is known to be over before anybody tries it.
    fn is_closed(_connection: &Self::Connection) -> bool {
        false
    }
}

/// What an error says about the connection it came over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another one would fare no better.
    None,
    /// It was silent: that speaks against it unless it answered somebody else meanwhile.
    Silent,
    /// It is broken, or leads to a server that is no longer, or not yet, the right one.
    Broken,
}

/// Opens the connection when it is needed, once for all callers who wait for it.
pub(crate) struct SharedConnection<C: Connect> {
    slot: Mutex<ConnectionSlot<C>>,
    /// Tells those who sit out a pause that a connection is being opened.
    attempted: Notify,
    /// How often the server has answered.
    answers: AtomicU64,
}

struct ConnectionSlot<C: Connect> {
    /// The connection, and since when it is being opened.
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

    /// Runs one exchange over the shared connection, and gives the connection up if it is to fault.
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
        // Whoever leaves without an answer, by an error or by no longer waiting, has no reason to trust
        // the connection, unless it answered somebody else meanwhile.
        let answers = self.answers.load(Ordering::Relaxed);
        let mut guard = ExchangeGuard { of: &opening, on: self, answers, fault: C::FAULT_IF_DROPPED };
        let opened = opened.unwrap_or_else(|| Err(C::abandoned()));
        let connection = opened.inspect_err(|_| guard.fault = Fault::Broken)?;
        let result = talk(connection).await;
        guard.fault = result.as_ref().err().map_or(Fault::None, C::fault);
        if result.is_ok() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Opens another connection when the next one is needed, and without a pause: nothing speaks against it.
    #[cfg(feature = "redis")]
    pub(crate) fn forget(&self) {
        lock(&self.slot).current = None;
    }

    /// The connection that there is, or else a new one, when it is time for it.
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

    /// `Err` while it is too early for another attempt: until when, unless one is made before.
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
        // In a task of its own, so that it survives a caller who gives up.
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

/// A caller who sits out a pause; dropped if that takes longer than the caller has time.
struct PauseGuard<'a, C: Connect>(&'a SharedConnection<C>);

impl<C: Connect> Drop for PauseGuard<'_, C> {
    fn drop(&mut self) {
        lock(&self.0.slot).backoff.shorten();
    }
}

struct ExchangeGuard<'a, C: Connect> {
    of: &'a ConnectionState<C>,
    on: &'a SharedConnection<C>,
    answers: u64,
    fault: Fault,
}

impl<C: Connect> Drop for ExchangeGuard<'_, C> {
    fn drop(&mut self) {
        let silent = self.on.answers.load(Ordering::Relaxed) == self.answers;
        if self.fault == Fault::Broken || (self.fault == Fault::Silent && silent) {
            lock(&self.on.slot).drop_if(|current| current.same_channel(self.of));
        }
    }
}

/// The attempt that succeeds first; the second is made when the first takes long. If both fail, the first one's error.
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
