//! The way to the store: one connection, or one per node of a cluster.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};

use super::super::Finding;
use super::super::timeouts::Timeouts;
use super::super::tls::Certificates;
use super::connection::{Connection, client};
use super::diagnosis::{self, Manner};
use super::keys::Keys;
use super::script::{Answer, Call};
use super::topology::Topology;

pub(super) enum Way {
    One(Box<Connection>),
    #[cfg(feature = "cluster")]
    Many(super::cluster::Cluster),
}

impl Way {
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
            #[cfg(feature = "sentinel")]
            Topology::Sentinel(sentinels) => {
                let sentinels = sentinels.with_certificates(certificates)?;
                Self::One(Box::new(Connection::to_master(sentinels, timeouts)))
            }
            #[cfg(feature = "cluster")]
            Topology::Cluster(named) => {
                Self::Many(super::cluster::Cluster::new(named, timeouts, certificates)?)
            }
        })
    }

    pub(super) fn with_timeouts(self, timeouts: Timeouts) -> Self {
        match self {
            Self::One(connection) => Self::One(Box::new(connection.with_timeouts(timeouts))),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => Self::Many(cluster.with_timeouts(timeouts)),
        }
    }

    pub(super) async fn run(&self, call: &Call<'_>) -> RedisResult<Answer> {
        self.exchange(&call.keys[0], |connection, asking| call.send(connection, asking)).await
    }

    /// The time of the server that has the key.
    pub(super) async fn time(&self, key: &str) -> RedisResult<Value> {
        let talk = async |mut connection, _| redis::cmd("TIME").query_async(&mut connection).await;
        self.exchange(key, talk).await
    }

    /// What could hurt about the server, or the servers, and these jobs' states there.
    pub(super) async fn look(
        &self,
        keys: &Keys,
        jobs: &[String],
        wait_replicas: usize,
    ) -> RedisResult<Vec<Finding>> {
        let manner = Manner { whole_cluster: !matches!(self, Self::One(_)), wait_replicas };
        match self {
            Self::One(connection) => {
                connection.exchange(|connection| diagnosis::look(connection, keys, jobs, manner)).await
            }
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.look(keys, jobs, manner).await,
        }
    }

    #[cfg_attr(not(feature = "cluster"), expect(unused_variables, reason = "one server has all keys"))]
    async fn exchange<T, F>(
        &self,
        key: &str,
        talk: impl Fn(MultiplexedConnection, bool) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        match self {
            Self::One(connection) => connection.exchange(|connection| talk(connection, false)).await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => cluster.exchange(key, talk).await,
        }
    }
}
