//! One connection for all callers of a store: opened when it is first needed, and anew after trouble and a pause.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::reconnect::Redial;
use crate::util::lock;

/// A set-up that takes longer may have fallen silent, and a second one begins. Most connections are open by then, and a
/// lease of two seconds has not ended.
const LONG: Duration = Duration::from_millis(300);

/// How a client opens a connection, and which errors speak against one.
pub(crate) trait Dial: Clone + Send + 'static {
    type Connection: Clone + Send + Sync + 'static;
    type Error: Clone + Send + Sync + 'static;

    fn dial(self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// The runtime that opened the connection went away before it was open.
    fn abandoned() -> Self::Error;

    fn blame(error: &Self::Error) -> Blame;

    /// What it says about a connection that somebody no longer waits for its answer.
    const IF_ABANDONED: Blame = Blame::Silent;

    /// Whether a connection is known to be over before anybody tries it.
    fn is_closed(_connection: &Self::Connection) -> bool {
        false
    }
}

/// What an error says about the connection it came over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Another one would fare no better.
    None,
    /// It was silent: that speaks against it unless it answered somebody else meanwhile.
    Silent,
    /// It is broken, or leads to a server that is no longer, or not yet, the right one.
    Broken,
}

/// Opens the connection when it is needed, once for all callers who wait for it.
pub(crate) struct Shared<D: Dial> {
    line: Mutex<Line<D>>,
    /// Tells those who sit out a pause that a connection is being opened.
    dialled: Notify,
    /// How often the server has answered.
    answers: AtomicU64,
}

struct Line<D: Dial> {
    /// The connection, and since when it is being opened.
    current: Option<(Opening<D>, Instant)>,
    redial: Redial,
}

/// A connection that is being opened, is open, or could not be opened. The channel is its identity.
type Opening<D> = watch::Receiver<Option<Result<<D as Dial>::Connection, <D as Dial>::Error>>>;

impl<D: Dial> Shared<D> {
    pub(crate) fn new() -> Self {
        let line = Line { current: None, redial: Redial::new() };
        Self { line: Mutex::new(line), dialled: Notify::new(), answers: AtomicU64::new(0) }
    }

    /// Runs one exchange over the shared connection, and gives the connection up if it is to blame.
    pub(crate) async fn exchange<T, F>(
        &self,
        dial: &D,
        talk: impl FnOnce(D::Connection) -> F,
    ) -> Result<T, D::Error>
    where
        F: Future<Output = Result<T, D::Error>>,
    {
        let mut opening = self.opening(dial).await;
        let opened = opening.wait_for(Option::is_some).await.ok().and_then(|opened| opened.clone());
        // Whoever leaves without an answer, by an error or by no longer waiting, has no reason to trust
        // the connection, unless it answered somebody else meanwhile.
        let answers = self.answers.load(Ordering::Relaxed);
        let mut suspicion = Suspicion { of: &opening, on: self, answers, blame: D::IF_ABANDONED };
        let opened = opened.unwrap_or_else(|| Err(D::abandoned()));
        let connection = opened.inspect_err(|_| suspicion.blame = Blame::Broken)?;
        let result = talk(connection).await;
        suspicion.blame = result.as_ref().err().map_or(Blame::None, D::blame);
        if result.is_ok() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Opens another connection when the next one is needed, and without a pause: nothing speaks against it.
    #[cfg(feature = "redis")]
    pub(crate) fn forget(&self) {
        lock(&self.line).current = None;
    }

    /// The connection that there is, or else a new one, when it is time for it.
    async fn opening(&self, dial: &D) -> Opening<D> {
        loop {
            let (until, dialled) = match self.opening_or_pause(dial) {
                Ok(opening) => return opening,
                Err(pause) => pause,
            };
            let impatience = Impatience(self);
            tokio::select! {
                () = sleep_until(until) => {}
                () = dialled => {}
            }
            std::mem::forget(impatience);
        }
    }

    /// `Err` while it is too early for another attempt: until when, unless one is made before.
    fn opening_or_pause(&self, dial: &D) -> Result<Opening<D>, (Instant, Notified<'_>)> {
        let mut line = lock(&self.line);
        line.hang_up_if(
            |opening| matches!(&*opening.borrow(), Some(Ok(connection)) if D::is_closed(connection)),
        );
        if let Some((opening, _)) = &line.current {
            return Ok(opening.clone());
        }
        if let Some(until) = line.redial.not_before() {
            return Err((until, self.dialled.notified()));
        }
        let (opened, opening) = watch::channel(None);
        let dial = dial.clone();
        // In a task of its own, so that it survives a caller who gives up.
        tokio::spawn(async move {
            let result = first_of_two(move || dial.clone().dial()).await;
            let _nobody_waits_any_longer = opened.send(Some(result));
        });
        line.current = Some((opening.clone(), Instant::now()));
        self.dialled.notify_waiters();
        Ok(opening)
    }
}

impl<D: Dial> Line<D> {
    fn hang_up_if(&mut self, over: impl FnOnce(&Opening<D>) -> bool) {
        if let Some((opening, since)) = self.current.take_if(|(opening, _)| over(opening)) {
            let was_open = matches!(&*opening.borrow(), Some(Ok(_)));
            self.redial.lost(was_open.then(|| since.elapsed()));
        }
    }
}

/// A caller who sits out a pause; dropped if that takes longer than the caller has time.
struct Impatience<'a, D: Dial>(&'a Shared<D>);

impl<D: Dial> Drop for Impatience<'_, D> {
    fn drop(&mut self) {
        lock(&self.0.line).redial.hurry();
    }
}

struct Suspicion<'a, D: Dial> {
    of: &'a Opening<D>,
    on: &'a Shared<D>,
    answers: u64,
    blame: Blame,
}

impl<D: Dial> Drop for Suspicion<'_, D> {
    fn drop(&mut self) {
        let silent = self.on.answers.load(Ordering::Relaxed) == self.answers;
        if self.blame == Blame::Broken || (self.blame == Blame::Silent && silent) {
            lock(&self.on.line).hang_up_if(|current| current.same_channel(self.of));
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
