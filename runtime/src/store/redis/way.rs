//! The way to the store: one connection, or one per node of a cluster.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult, Value};

use super::super::Finding;
use super::super::timeouts::Timeouts;
use super::super::tls::Certificates;
use super::connection::{Connection, Server, client};
use super::diagnosis::{self, Manner};
use super::keys::Keys;
use super::script::{Answer, Call};
use super::topology::Topology;

pub(super) enum Way {
    One(Box<Connection>),
    #[cfg(feature = "cluster")]
    Many(super::cluster::Cluster),
}

/// How to open a connection beside those that steps go over. Whatever node of a cluster it leads to, it hears all.
#[derive(Clone)]
pub(super) enum Door {
    One(Server),
    #[cfg(feature = "cluster")]
    Many(super::cluster::Nodes),
}

impl Door {
    pub(super) async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::One(server) => server.client().await,
            #[cfg(feature = "cluster")]
            Self::Many(nodes) => nodes.client_of_any().await,
        }
    }
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

    pub(super) fn door(&self) -> Door {
        match self {
            Self::One(connection) => Door::One(connection.server().clone()),
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => Door::Many(cluster.nodes().clone()),
        }
    }

    /// The names of all keys that match a pattern, found by a walk over the whole database, in small steps.
    pub(super) async fn names(&self, pattern: &str) -> RedisResult<Vec<String>> {
        match self {
            Self::One(connection) => names_on(connection, pattern).await,
            #[cfg(feature = "cluster")]
            Self::Many(cluster) => {
                let mut names = Vec::new();
                for (_, connection) in cluster.masters().await? {
                    names.extend(names_on(&connection, pattern).await?);
                }
                Ok(names)
            }
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

/// As many keys are looked at in one step: far below a millisecond.
const AT_A_TIME: usize = 1000;

async fn names_on(connection: &Connection, pattern: &str) -> RedisResult<Vec<String>> {
    let mut names = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(AT_A_TIME);
        let talk = async |mut connection: MultiplexedConnection| scan.query_async(&mut connection).await;
        let (next, page): (u64, Vec<String>) = connection.exchange(talk).await?;
        names.extend(page);
        if next == 0 {
            return Ok(names);
        }
        cursor = next;
    }
}
