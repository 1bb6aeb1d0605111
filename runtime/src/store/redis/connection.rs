//! The connection to one server.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult};

use super::address::client_at;
use super::errors;
use super::topology::sentinel::{Sentinels, if_master};
use crate::store::net::connection::{Connect, ConnectionFault, ExchangeGuard, SharedConnection};
use crate::store::net::timeouts::Timeouts;

pub(super) async fn open(client: &Client, timeouts: Timeouts) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeouts.connect))
        .set_response_timeout(Some(timeouts.response));
    client.get_multiplexed_async_connection_with_config(&config).await
}

pub(super) struct RedisConnection {
    pub(super) server: RedisConnector,
    shared: SharedConnection<RedisConnector>,
}

impl RedisConnection {
    pub(super) fn new(server: RedisConnector) -> Self {
        Self { server, shared: SharedConnection::new() }
    }

    /// Runs one exchange over the shared connection, and drops the connection if it is faulty.
    pub(super) async fn exchange<T, F: Future<Output = RedisResult<T>>>(
        &self,
        talk: impl FnOnce(MultiplexedConnection) -> F,
    ) -> RedisResult<T> {
        self.shared.exchange(&self.server, talk).await
    }

    /// Guards a caller that shares an exchange with others.
    pub(super) fn guard(&self) -> Option<ExchangeGuard<'_, RedisConnector>> {
        self.shared.guard()
    }
}

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct RedisConnector {
    pub(super) client: Client,
    /// The sentinels that return the address for each new connection, if it may change.
    pub(super) sentinels: Option<Arc<Sentinels>>,
    pub(super) timeouts: Timeouts,
}

impl RedisConnector {
    /// Returns a client for the server's current address.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        match &self.sentinels {
            None => Ok(self.client.clone()),
            Some(sentinels) => client_at(&sentinels.find(self.timeouts).await?, &self.client),
        }
    }
}

impl Connect for RedisConnector {
    type Connection = MultiplexedConnection;
    type Error = RedisError;

    async fn connect(self) -> RedisResult<MultiplexedConnection> {
        let client = self.client().await?;
        let address = client.get_connection_info().addr();
        let opened = open(&client, self.timeouts).await;
        match self.sentinels {
            None => opened.map_err(|error| errors::of_connecting(error, address)),
            Some(_) => if_master(opened?, address).await,
        }
    }

    fn abandoned() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()
    }

    fn fault(error: &RedisError) -> ConnectionFault {
        errors::fault(error)
    }
}
