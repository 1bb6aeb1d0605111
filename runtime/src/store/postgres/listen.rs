//! Hearing of freed keys, over one connection that all who listen share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_postgres::Client;

use super::super::shared::{Blame, Dial, Shared};
use super::super::{Bell, Listener, StoreErrorKind};
use super::connection::{Connection, Server};
use super::trouble::Trouble;

/// What `jobs_tell_v1` sends to, with the schema, the namespace and the key.
const LISTEN: &str = "LISTEN jobs_freed";

/// A store's ear: opened when somebody first listens, and anew after trouble by whoever listens next.
pub(super) struct Ear(Shared<Listening>);

impl Ear {
    pub(super) fn new() -> Self {
        Self(Shared::new())
    }

    /// Hears whatever the server is told from now on.
    pub(super) async fn listen(&self, connection: &Connection, payload: String) -> Result<Listener, Trouble> {
        let patience = connection.response();
        let dial = Listening(connection.server().clone());
        self.0.exchange(&dial, |line: Arc<Line>| async move { line.listen(payload, patience).await }).await
    }
}

/// How to open the connection.
#[derive(Clone)]
struct Listening(Server);

impl Dial for Listening {
    type Connection = Arc<Line>;
    type Error = Trouble;

    async fn dial(self) -> Result<Arc<Line>, Trouble> {
        let bells = Arc::<Bells>::default();
        let heard = Hung(Arc::clone(&bells));
        let client = self.0.open(move |notification| heard.0.ring(notification.payload())).await?;
        Ok(Arc::new(Line { client, bells }))
    }

    fn abandoned() -> Trouble {
        Server::abandoned()
    }

    fn blame(trouble: &Trouble) -> Blame {
        trouble.blame()
    }

    fn is_closed(line: &Arc<Line>) -> bool {
        line.client.is_closed()
    }
}

/// The connection, and whom to tell of what comes over it.
struct Line {
    client: Client,
    bells: Arc<Bells>,
}

impl Line {
    /// `LISTEN` does no harm when it is repeated, and shows that the server is still there.
    async fn listen(&self, payload: String, patience: Duration) -> Result<Listener, Trouble> {
        match tokio::time::timeout(patience, self.client.batch_execute(LISTEN)).await {
            Ok(confirmed) => confirmed?,
            Err(_) => return Err(Trouble::timed_out("no answer", patience)),
        }
        let ended = || Trouble::new(StoreErrorKind::Unreachable, "the connection that listens has ended");
        self.bells.hang(payload).ok_or_else(ended)
    }
}

/// The bells of those who listen, by what they listen for; none any longer once the connection has ended.
struct Bells(Mutex<Option<Hanging>>);

#[derive(Default)]
struct Hanging {
    bells: HashMap<String, Vec<Bell>>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Default for Bells {
    fn default() -> Self {
        Self(Mutex::new(Some(Hanging::default())))
    }
}

impl Bells {
    fn hang(&self, payload: String) -> Option<Listener> {
        let mut hanging = self.hanging();
        let hanging = hanging.as_mut()?;
        if hanging.bells.len() >= hanging.room {
            hanging.bells.retain(|_, bells| {
                bells.retain(|bell| !bell.is_unheard());
                !bells.is_empty()
            });
            hanging.room = 64.max(2 * hanging.bells.len());
        }
        let (bell, listener) = Listener::new();
        let bells = hanging.bells.entry(payload).or_default();
        bells.retain(|bell| !bell.is_unheard());
        bells.push(bell);
        Some(listener)
    }

    fn ring(&self, payload: &str) {
        if let Some(bells) = self.hanging().as_ref().and_then(|hanging| hanging.bells.get(payload)) {
            bells.iter().for_each(Bell::ring);
        }
    }

    fn hanging(&self) -> MutexGuard<'_, Option<Hanging>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the bells down at the connection's end: then those who listen know that they hear nothing any more.
struct Hung(Arc<Bells>);

impl Drop for Hung {
    fn drop(&mut self) {
        *self.0.hanging() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bells_that_nobody_hears_are_taken_down() {
        let bells = Bells::default();
        let kept: Vec<_> = (0..10).map(|key| bells.hang(format!("kept/{key}")).expect("a line")).collect();
        for key in 0..10_000 {
            drop(bells.hang(format!("dropped/{}", key % 5_000)));
        }
        let hanging = bells.hanging();
        let hanging = &hanging.as_ref().expect("a line").bells;
        assert!(hanging.len() <= 64, "{} bells", hanging.len());
        assert_eq!(hanging.keys().filter(|key| key.starts_with("kept/")).count(), kept.len());
    }

    #[tokio::test]
    async fn whoever_listens_is_told_of_the_end_of_the_line() {
        let bells = Arc::<Bells>::default();
        let line = Hung(Arc::clone(&bells));
        let mut listener = bells.hang("key".to_owned()).expect("a line");
        line.0.ring("key");
        line.0.ring("another");
        assert!(listener.freed().await);
        drop(line);
        assert!(!listener.freed().await);
        assert!(bells.hang("key".to_owned()).is_none());
    }
}
