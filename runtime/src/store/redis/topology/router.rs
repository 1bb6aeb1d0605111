//! The route to the store: one connection, or one per node of a cluster.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};

use super::Topology;
use super::cluster::{Cluster, Master};
use super::sentinel::Sentinels;
use super::slots::Node;
use crate::store::net::timeouts::Timeouts;
use crate::store::net::tls::Certificates;
use crate::store::redis::address;
use crate::store::redis::connection::{RedisConnection, RedisConnector};

#[derive(Clone)]
pub(crate) enum Router {
    One(Arc<RedisConnection>),
    Many(Arc<Cluster>),
}

impl Router {
    pub(crate) fn new(
        topology: Topology,
        timeouts: Timeouts,
        certificates: &Certificates,
    ) -> Result<Self, String> {
        let client = |info| address::client(info, certificates);
        let (info, sentinels) = match topology {
            Topology::Server(info) => (info, None),
            Topology::Sentinel { sentinels, name, master } => {
                let sentinels = sentinels.into_iter().map(client).collect::<Result<_, _>>()?;
                (master, Some(Arc::new(Sentinels { sentinels, name })))
            }
            Topology::Cluster(named) => {
                let nodes = named.iter().filter_map(address::node_of).collect();
                let cluster = Cluster::new(nodes, client(named[0].clone())?, timeouts);
                return Ok(Self::Many(Arc::new(cluster)));
            }
        };
        Ok(Self::to(RedisConnector { client: client(*info)?, sentinels, timeouts }))
    }

    /// A route to the server of a client.
    pub(crate) fn to_server_of(client: Client, timeouts: Timeouts) -> Self {
        Self::to(RedisConnector { client, sentinels: None, timeouts })
    }

    fn to(server: RedisConnector) -> Self {
        Self::One(Arc::new(RedisConnection::new(server)))
    }

    /// A route to the same servers, over connections of its own.
    pub(crate) fn anew(&self, timeouts: Timeouts) -> Self {
        match self {
            Self::One(connection) => Self::to(RedisConnector { timeouts, ..connection.server.clone() }),
            Self::Many(cluster) => Self::Many(Arc::new(cluster.anew(timeouts))),
        }
    }

    /// Runs one exchange with the server that has the key. The second argument of `talk` is whether to send `ASKING` first.
    pub(crate) async fn exchange<T, F: Future<Output = RedisResult<T>>>(
        &self,
        key: &str,
        talk: impl Fn(MultiplexedConnection, bool) -> F,
    ) -> RedisResult<T> {
        match self {
            Self::One(connection) => connection.exchange(|connection| talk(connection, false)).await,
            Self::Many(cluster) => cluster.exchange(key, talk).await,
        }
    }

    /// The servers that have keys, in the order of their names.
    pub(crate) async fn masters(&self) -> RedisResult<Vec<Master>> {
        match self {
            Self::One(connection) => {
                Ok(vec![Master { node: Node::default(), connection: connection.clone(), slots: None }])
            }
            Self::Many(cluster) => cluster.masters().await,
        }
    }

    /// Returns a client for another connection. On a cluster it leads to any node: each of them gets all messages that are
    /// published.
    pub(crate) async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::One(connection) => connection.server.client().await,
            Self::Many(cluster) => cluster.client_of_any().await,
        }
    }
}
