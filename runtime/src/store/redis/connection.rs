//! The one connection of a store: shared by all steps, and opened anew after trouble.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind,
};

use super::super::shared::{Blame, Dial, Shared};
use super::super::tls::Certificates;
use super::trouble;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    server: Server,
    shared: Shared<Server>,
}

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        let config = config(CONNECT_TIMEOUT, RESPONSE_TIMEOUT);
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

/// What connects to one server: plainly, or as the certificates say.
pub(super) fn client(info: ConnectionInfo, certificates: &Certificates) -> Result<Client, String> {
    #[cfg(feature = "tls")]
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        let made = Client::build_with_tls(info, certificates.for_redis()?);
        return made.map_err(|error| error.to_string());
    }
    if certificates.is_empty() {
        Client::open(info).map_err(|error| error.to_string())
    } else {
        Err("certificates are for TLS: write rediss:// instead of redis://".to_owned())
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
        let connected = self.client.get_multiplexed_async_connection_with_config(&self.config).await;
        connected.map_err(|error| trouble::of_dialling(error, self.client.get_connection_info().addr()))
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
