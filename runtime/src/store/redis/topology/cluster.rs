//! A cluster: each request goes to the node that has the key's slot, over that node's own connection.
//!
//! A node that hangs therefore delays the jobs in its slots and no others, and apart from redirections a request is sent
//! once. The cluster client of redis-rs 1.8 gives neither: it finishes a refresh of its slots before it polls any request,
//! so one node that hangs delays the requests to all, and it repeats requests by itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use redis::aio::MultiplexedConnection;
use redis::{Client, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::quorum::{Agreement, agree};
use super::slots::{Node, SlotMap, redirected, slot_of};
use crate::store::net::connection::{Connect, ConnectionFault, SharedConnection};
use crate::store::net::timeouts::Timeouts;
use crate::store::redis::address::client_at;
use crate::store::redis::connection::{RedisConnection, RedisConnector};
use crate::store::redis::errors;
use crate::util::lock;

/// A slot may move on while it is looked for, but not for ever.
const REDIRECTIONS: usize = 5;

pub(crate) struct Cluster {
    nodes: Arc<ClusterNodes>,
    slots: SharedConnection<Arc<ClusterNodes>>,
}

/// The connections to the nodes, and how to open more.
struct ClusterNodes {
    /// The nodes that the URL names.
    named: BTreeSet<Node>,
    /// A client for one of them. The others have the same user, password and certificates.
    client: Client,
    timeouts: Timeouts,
    open: Mutex<HashMap<Node, Arc<RedisConnection>>>,
}

/// A server that has keys, of a cluster or alone.
pub(crate) struct Master {
    /// Empty if it is alone.
    pub(crate) node: Node,
    pub(crate) connection: Arc<RedisConnection>,
    /// If it is alone it has all.
    pub(crate) slots: Option<Arc<SlotMap>>,
}

impl Master {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.node_of(slot_of(key)) == Some(&self.node))
    }
}

impl Cluster {
    pub(crate) fn new(named: BTreeSet<Node>, client: Client, timeouts: Timeouts) -> Self {
        let nodes = ClusterNodes { named, client, timeouts, open: Mutex::default() };
        Self { nodes: Arc::new(nodes), slots: SharedConnection::new() }
    }

    /// The same cluster, over connections of its own.
    pub(crate) fn anew(&self, timeouts: Timeouts) -> Self {
        Self::new(self.nodes.named.clone(), self.nodes.client.clone(), timeouts)
    }

    /// Runs one exchange with the node that has the key. The second argument of `talk` is whether to send `ASKING` first.
    pub(crate) async fn exchange<T, F: Future<Output = RedisResult<T>>>(
        &self,
        key: &str,
        talk: impl Fn(MultiplexedConnection, bool) -> F,
    ) -> RedisResult<T> {
        let slot = slot_of(key);
        let mut moved = false;
        let look_and_talk = async |slots: Arc<SlotMap>| {
            let mut node = slots.node_of(slot).ok_or_else(|| no_node(slot))?.clone();
            let mut asking = false;
            let mut redirections = 0..REDIRECTIONS;
            loop {
                let connection = self.nodes.connection(&node)?;
                let result = connection.exchange(|connection| talk(connection, asking)).await;
                let redirection = result.as_ref().err().and_then(|error| redirection(error, &node));
                let (Some((to, ask)), Some(_)) = (redirection, redirections.next()) else { return result };
                moved |= !ask;
                (node, asking) = (to, ask);
            }
        };
        let result = self.slots.exchange(&self.nodes, look_and_talk).await;
        if moved {
            self.slots.forget();
        }
        result
    }

    /// The nodes that have slots.
    pub(crate) async fn masters(&self) -> RedisResult<Vec<Master>> {
        let slots = self.slots.exchange(&self.nodes, async |slots| Ok(slots)).await?;
        let master = |node: &Node| {
            let (node, connection) = (node.clone(), self.nodes.connection(node)?);
            Ok(Master { node, connection, slots: Some(slots.clone()) })
        };
        slots.nodes().into_iter().map(master).collect()
    }

    /// Returns a client for a node; for another one each time, since a node may hang.
    pub(crate) async fn client_of_any(&self) -> RedisResult<Client> {
        let slots = self.nodes.clone().connect().await?;
        let nodes = slots.nodes();
        let any = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % nodes.len().max(1);
        client_at(nodes.into_iter().nth(any).ok_or_else(|| no_node(0))?, &self.nodes.client)
    }
}

impl ClusterNodes {
    fn connection(&self, node: &Node) -> RedisResult<Arc<RedisConnection>> {
        if let Some(connection) = self.open().get(node) {
            return Ok(connection.clone());
        }
        let client = client_at(node, &self.client)?;
        let new = RedisConnection::new(RedisConnector { client, sentinels: None, timeouts: self.timeouts });
        Ok(self.open().entry(node.clone()).or_insert(Arc::new(new)).clone())
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Node, Arc<RedisConnection>>> {
        lock(&self.open)
    }

    /// The slots as this node knows them.
    async fn ask(self: Arc<Self>, node: Node) -> RedisResult<SlotMap> {
        let talk = async |mut connection: MultiplexedConnection| {
            redis::cmd("CLUSTER").arg("SLOTS").query_async::<Value>(&mut connection).await
        };
        let answer = self.connection(&node)?.exchange(talk).await?;
        let (host, port) = node;
        let unknown = || std::io::Error::other(format!("{host}:{port} lists its slots in a way of its own"));
        Ok(SlotMap::read(&answer, &host).ok_or_else(unknown)?)
    }
}

/// The slots are looked up when they are first needed, and anew when they have led astray.
impl Connect for Arc<ClusterNodes> {
    type Connection = Arc<SlotMap>;
    type Error = RedisError;

    /// A caller that stopped waiting may have been sent to a node that is gone, whatever other nodes answer.
    const FAULT_IF_DROPPED: ConnectionFault = ConnectionFault::Broken;

    async fn connect(self) -> RedisResult<Arc<SlotMap>> {
        // Nodes of the URL may have been replaced since, and any of them may hang: the majority's answer counts.
        let known: BTreeSet<_> = self.open().keys().chain(&self.named).cloned().collect();
        let asked = known.into_iter().map(|node| self.clone().ask(node)).collect();
        // A node that does not have a slot any more names the one that has.
        let slots = agree(asked, Agreement::MostFrequent).await.unwrap_or_else(|| Err(Self::abandoned()))?;
        let nodes = slots.nodes();
        self.open().retain(|node, _| self.named.contains(node) || nodes.contains(node));
        Ok(Arc::new(slots))
    }

    fn abandoned() -> RedisError {
        RedisConnector::abandoned()
    }

    fn fault(error: &RedisError) -> ConnectionFault {
        match (error.code(), errors::fault(error)) {
            // A node that is silent may be gone: the slots may be elsewhere by now.
            (Some("MOVED" | "CLUSTERDOWN"), _) | (_, ConnectionFault::Silent) => ConnectionFault::Broken,
            (_, blame) => blame,
        }
    }
}

/// The node to which a redirection leads, and whether it is for this request only.
fn redirection(error: &RedisError, asked: &Node) -> Option<(Node, bool)> {
    let node = redirected(error.redirect_node()?.0, asked)?;
    Some((node, error.kind() == ErrorKind::Server(ServerErrorKind::Ask)))
}

fn no_node(slot: u16) -> RedisError {
    std::io::Error::other(format!("no node of the cluster has the slot {slot}")).into()
}
