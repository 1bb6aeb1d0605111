//! The route to the store: one connection, or one per node of a cluster.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};

use super::super::Finding;
use super::super::timeouts::Timeouts;
use super::super::tls::Certificates;
use super::cluster::{Cluster, Nodes};
use super::connection::{Connection, Server, client};
use super::diagnosis::{self, Usage};
use super::keys::Keys;
use super::sentinel::Sentinels;
use super::topology::Topology;

pub(super) enum Route {
    One(Box<Connection>),
    Many(Cluster),
}

/// Opens connections beside those that the route has. On a cluster it leads to any node: all of them hear what is
/// published.
#[derive(Clone)]
pub(super) enum Dialer {
    One(Server),
    Many(Nodes),
}

impl Dialer {
    pub(super) async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::One(server) => server.client().await,
            Self::Many(nodes) => nodes.client_of_any().await,
        }
    }
}

impl Route {
    pub(super) fn new(
        topology: &Topology,
        timeouts: Timeouts,
        certificates: &Arc<Certificates>,
    ) -> Result<Self, String> {
        Ok(match topology {
            Topology::Server(info) => {
                let client = client(info.as_ref().clone(), certificates)?;
                Self::One(Box::new(Connection::to_server(client, timeouts)))
            }
            Topology::Sentinel { sentinels, name, master } => {
                let sentinels = Sentinels::new(sentinels, name, master, certificates)?;
                Self::One(Box::new(Connection::to_master(sentinels, timeouts)))
            }
            Topology::Cluster(named) => Self::Many(Cluster::new(named, timeouts, certificates)?),
        })
    }

    pub(super) fn with_timeouts(self, timeouts: Timeouts) -> Self {
        match self {
            Self::One(connection) => Self::One(Box::new(connection.with_timeouts(timeouts))),
            Self::Many(cluster) => Self::Many(cluster.with_timeouts(timeouts)),
        }
    }

    /// Runs one exchange with the server that has the key. The exchange is told whether it must send `ASKING` first.
    pub(super) async fn exchange<T, F>(
        &self,
        key: &str,
        talk: impl Fn(MultiplexedConnection, bool) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        match self {
            Self::One(connection) => connection.exchange(|connection| talk(connection, false)).await,
            Self::Many(cluster) => cluster.exchange(key, talk).await,
        }
    }

    /// Finds problems with the server, or the servers, and with these jobs' records there.
    pub(super) async fn diagnose(
        &self,
        keys: &Keys,
        jobs: &[String],
        wait_replicas: usize,
    ) -> RedisResult<Vec<Finding>> {
        let usage = Usage { whole_cluster: matches!(self, Self::Many(_)), wait_replicas };
        match self {
            Self::One(connection) => {
                connection.exchange(|connection| diagnosis::diagnose(connection, keys, jobs, usage)).await
            }
            Self::Many(cluster) => cluster.diagnose(keys, jobs, usage).await,
        }
    }

    pub(super) fn dialer(&self) -> Dialer {
        match self {
            Self::One(connection) => Dialer::One(connection.server().clone()),
            Self::Many(cluster) => Dialer::Many(cluster.nodes().clone()),
        }
    }
}
