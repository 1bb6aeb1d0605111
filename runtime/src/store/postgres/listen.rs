//! Subscriptions to keys, over one connection that all of them share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_postgres::Client;

use super::super::bells::Bells;
use super::super::shared::{Blame, Dial, Shared};
use super::super::{Listener, StoreErrorKind};
use super::connection::{Connection, Server};
use super::trouble::Trouble;

/// The channel of all notifications. Each names its schema, namespace and key.
const LISTEN: &str = "LISTEN jobs_freed";

/// A store's subscriptions. Their connection is opened by the first one, and again after an error by the next one.
pub(super) struct Subscriptions(Shared<Listening>);

impl Subscriptions {
    pub(super) fn new() -> Self {
        Self(Shared::new())
    }

    /// Subscribes to a payload, from now on.
    ///
    /// `None` if the store has no connection of its own: one that is lent has to be given back.
    pub(super) async fn listen(
        &self,
        connection: &Connection,
        payload: String,
    ) -> Result<Option<Listener>, Trouble> {
        let patience = connection.response();
        let Some(server) = connection.server() else { return Ok(None) };
        let talk = |line: Arc<Line>| async move { line.listen(payload, patience).await };
        self.0.exchange(&Listening(server), talk).await.map(Some)
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
        let line = Arc::downgrade(&bells);
        let client = self.0.open(move |notification| bells.ring(notification.payload())).await?;
        Ok(Arc::new(Line { client, bells: line }))
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

/// The connection, and those to notify of what comes over it.
struct Line {
    client: Client,
    bells: Weak<Bells>,
}

impl Line {
    /// `LISTEN` can be repeated, and shows that the server still answers.
    async fn listen(&self, payload: String, patience: Duration) -> Result<Listener, Trouble> {
        match tokio::time::timeout(patience, self.client.batch_execute(LISTEN)).await {
            Ok(confirmed) => confirmed.map_err(|error| Trouble::from(&error))?,
            Err(_) => return Err(Trouble::timed_out("no answer", patience)),
        }
        let ended = || Trouble::new(StoreErrorKind::Unreachable, "the connection that listens has ended");
        Ok(self.bells.upgrade().ok_or_else(ended)?.hang(payload).0)
    }
}
