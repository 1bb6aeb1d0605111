//! The one connection of a store.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification};

use super::super::StoreErrorKind;
use super::super::shared::{Blame, Dial, Shared};
use super::trouble::Trouble;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// All steps go over one connection; the server takes them one after the other.
pub(super) struct Connection {
    dial: Server,
    shared: Shared<Server>,
    response: Duration,
}

impl Connection {
    pub(super) fn new(config: Config) -> Self {
        let dial = Server { config: Arc::new(config), patience: CONNECT_TIMEOUT };
        Self { dial, shared: Shared::new(), response: RESPONSE_TIMEOUT }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.dial.patience = connect;
        self.response = response;
        self
    }

    /// How to open another one.
    pub(super) fn server(&self) -> &Server {
        &self.dial
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
pub(super) struct Server {
    config: Arc<Config>,
    patience: Duration,
}

impl Server {
    /// Opens a connection, and passes on what the server tells without being asked. The way to do so is dropped when the
    /// connection ends.
    pub(super) async fn open(
        &self,
        mut pass_on: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Client, Trouble> {
        let connecting = tokio::time::timeout(self.patience, self.config.connect(NoTls));
        let Ok(connected) = connecting.await else {
            return Err(Trouble::timed_out("no connection", self.patience));
        };
        let (client, mut connection) = connected?;
        // Whoever waits for an answer is told of the connection's end.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    pass_on(notification);
                }
            }
        });
        Ok(client)
    }
}

impl Dial for Server {
    type Connection = Arc<Client>;
    type Error = Trouble;

    async fn dial(self) -> Result<Arc<Client>, Trouble> {
        self.open(drop).await.map(Arc::new)
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
