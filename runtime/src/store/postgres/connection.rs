//! The one connection of a store.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, Config, NoTls};

use super::super::StoreErrorKind;
use super::super::parameters::Timeouts;
use super::super::shared::{Blame, Dial, Shared};
use super::trouble::Trouble;

/// All steps go over one connection; the server takes them one after the other.
pub(super) struct Connection {
    dial: Server,
    shared: Shared<Server>,
    response: Duration,
}

impl Connection {
    pub(super) fn new(config: Config, timeouts: Timeouts) -> Self {
        let dial = Server { config: Arc::new(config), patience: timeouts.connect };
        Self { dial, shared: Shared::new(), response: timeouts.response }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.dial.patience = connect;
        Arc::make_mut(&mut self.dial.config).connect_timeout(connect);
        self.response = response;
        self
    }

    /// How long the answer to a step may take.
    pub(super) fn response(&self) -> Duration {
        self.response
    }

    /// Runs one exchange, for which the server has this long once the connection is open.
    pub(super) async fn exchange<T, F>(
        &self,
        patience: Duration,
        talk: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let talk = |client| async move {
            match tokio::time::timeout(patience, talk(client)).await {
                Ok(result) => result.map_err(Trouble::from),
                // It may have been applied, or be applied later.
                Err(_) => Err(Trouble::timed_out("no answer", patience)),
            }
        };
        self.shared.exchange(&self.dial, talk).await
    }
}

#[derive(Clone)]
struct Server {
    config: Arc<Config>,
    patience: Duration,
}

impl Dial for Server {
    type Connection = Arc<Client>;
    type Error = Trouble;

    async fn dial(self) -> Result<Arc<Client>, Trouble> {
        let connecting = tokio::time::timeout(self.patience, self.config.connect(NoTls));
        let Ok(connected) = connecting.await else {
            return Err(Trouble::timed_out("no connection", self.patience));
        };
        let (client, connection) = connected?;
        // Whoever waits for an answer is told of the connection's end.
        tokio::spawn(async { drop(connection.await) });
        Ok(Arc::new(client))
    }

    fn abandoned() -> Trouble {
        Trouble::new(StoreErrorKind::Unreachable, "the connection was given up before it was open")
    }

    fn blame(trouble: &Trouble) -> Blame {
        trouble.blame()
    }

    fn is_closed(client: &Arc<Client>) -> bool {
        client.is_closed()
    }
}
