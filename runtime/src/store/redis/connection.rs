//! The one connection of a store: shared by all steps, and opened anew after trouble.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, ServerErrorKind};

use super::super::parameters::Timeouts;
use super::super::shared::{Blame, Dial, Shared};

pub(super) struct Connection {
    server: Server,
    shared: Shared<Server>,
}

impl Connection {
    pub(super) fn new(client: Client, timeouts: Timeouts) -> Self {
        let config = config(timeouts.connect, timeouts.response);
        Self { server: Server { client, config }, shared: Shared::new() }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.server.config = config(connect, response);
        self
    }

    /// Runs one exchange over the shared connection, and gives the connection up if it is to blame.
    pub(super) async fn exchange<T, F>(&self, talk: impl FnOnce(MultiplexedConnection) -> F) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.shared.exchange(&self.server, talk).await
    }
}

fn config(connect: Duration, response: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(connect)).set_response_timeout(Some(response))
}

#[derive(Clone)]
struct Server {
    client: Client,
    config: AsyncConnectionConfig,
}

impl Dial for Server {
    type Connection = MultiplexedConnection;
    type Error = RedisError;

    async fn dial(self) -> RedisResult<MultiplexedConnection> {
        self.client.get_multiplexed_async_connection_with_config(&self.config).await
    }

    fn abandoned() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()
    }

    fn blame(error: &RedisError) -> Blame {
        match error.kind() {
            _ if error.is_timeout() => Blame::Silent,
            ErrorKind::Server(
                ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
            ) => Blame::Broken,
            ErrorKind::Server(_) => Blame::None,
            ErrorKind::Extension if error.code() != Some("NOAUTH") => Blame::None,
            _ => Blame::Broken,
        }
    }
}
