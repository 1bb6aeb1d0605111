//! A connection to one server: shared by all steps, and opened anew after trouble.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisError, RedisResult};

use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::super::tls::Certificates;
use super::sentinel::Sentinels;
use super::trouble;

impl Timeouts {
    fn config(self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect))
            .set_response_timeout(Some(self.response))
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

pub(super) struct Connection {
    server: Server,
    shared: Shared<Server>,
}

impl Connection {
    pub(super) fn to_server(client: Client, timeouts: Timeouts) -> Self {
        Self::new(Place::Fixed(Box::new(client)), timeouts)
    }

    /// A connection to whatever the sentinels name when it is opened.
    pub(super) fn to_master(sentinels: Sentinels, timeouts: Timeouts) -> Self {
        Self::new(Place::Named(sentinels), timeouts)
    }

    fn new(place: Place, timeouts: Timeouts) -> Self {
        Self { server: Server { place, config: timeouts.config() }, shared: Shared::new() }
    }

    pub(super) fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.server.config = timeouts.config();
        self
    }

    /// How to open another one.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Runs one exchange over the shared connection, and gives the connection up if it is to blame.
    pub(super) async fn exchange<T, F>(&self, talk: impl FnOnce(MultiplexedConnection) -> F) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.shared.exchange(&self.server, talk).await
    }
}

#[derive(Clone)]
pub(super) struct Server {
    place: Place,
    config: AsyncConnectionConfig,
}

#[derive(Clone)]
enum Place {
    Fixed(Box<Client>),
    Named(Sentinels),
}

impl Server {
    /// What connects to the server where it is now.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        match &self.place {
            Place::Fixed(client) => Ok(client.as_ref().clone()),
            Place::Named(sentinels) => sentinels.find(&self.config).await,
        }
    }
}

impl Dial for Server {
    type Connection = MultiplexedConnection;
    type Error = RedisError;

    async fn dial(self) -> RedisResult<MultiplexedConnection> {
        match &self.place {
            Place::Fixed(client) => {
                let connected = client.get_multiplexed_async_connection_with_config(&self.config).await;
                connected.map_err(|error| trouble::of_dialling(error, client.get_connection_info().addr()))
            }
            Place::Named(sentinels) => sentinels.dial(&self.config).await,
        }
    }

    fn abandoned() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()
    }

    fn blame(error: &RedisError) -> Blame {
        trouble::blame(error)
    }
}
