//! A cluster: each request goes to the node that has the key's slot, over that node's own connection.
//!
//! A node that hangs therefore delays the jobs in its slots and no others, and apart from redirections a request is sent
//! once. The cluster client of redis-rs 1.8 gives neither: it finishes a refresh of its slots before it polls any request,
//! so one node that hangs delays the requests to all, and it repeats requests by itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::super::Finding;
use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::super::tls::Certificates;
use super::address::{self, Access};
use super::connection::Connection;
use super::diagnosis::{self, Usage};
use super::keys::Keys;
use super::quorum::agree;
use super::slots::{Node, Slots, redirected, slot_of};
use super::trouble;

/// A slot may move on while it is looked for, but not for ever.
const REDIRECTIONS: usize = 5;

pub(super) struct Cluster {
    nodes: Nodes,
    slots: Shared<Nodes>,
}

/// The connections to the nodes, and how to open more.
#[derive(Clone)]
pub(super) struct Nodes {
    /// The nodes that the URL names.
    named: Arc<BTreeSet<Node>>,
    access: Arc<Access>,
    timeouts: Timeouts,
    open: Arc<Mutex<HashMap<Node, Arc<Connection>>>>,
}

impl Cluster {
    pub(super) fn new(
        named: &[ConnectionInfo],
        timeouts: Timeouts,
        certificates: &Arc<Certificates>,
    ) -> Result<Self, String> {
        let access = Arc::new(Access::like(&named[0], certificates)?);
        let named = Arc::new(named.iter().filter_map(address::node_of).collect());
        Ok(Self { nodes: Nodes { named, access, timeouts, open: Arc::default() }, slots: Shared::new() })
    }

    pub(super) fn with_timeouts(self, timeouts: Timeouts) -> Self {
        let nodes = Nodes { timeouts, open: Arc::default(), ..self.nodes };
        Self { nodes, slots: Shared::new() }
    }

    /// Runs one exchange with the node that has the key. The exchange is told whether it must send `ASKING` first.
    pub(super) async fn exchange<T, F>(
        &self,
        key: &str,
        talk: impl Fn(MultiplexedConnection, bool) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let slot = slot_of(key);
        let mut moved = false;
        let look_and_talk = async |slots: Arc<Slots>| {
            let mut node = slots.node_of(slot).ok_or_else(|| no_node(slot))?.clone();
            let mut asking = false;
            let mut redirections = 0;
            loop {
                let connection = self.nodes.connection(&node)?;
                let result = connection.exchange(|connection| talk(connection, asking)).await;
                let Some((to, ask)) = result.as_ref().err().and_then(|error| redirection(error, &node))
                else {
                    return result;
                };
                redirections += 1;
                if redirections > REDIRECTIONS {
                    return result;
                }
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

    /// Finds problems with the nodes, each of which has the records of some of the jobs. The same finding is reported once.
    pub(super) async fn diagnose(
        &self,
        keys: &Keys,
        jobs: &[String],
        usage: Usage,
    ) -> RedisResult<Vec<Finding>> {
        let slots = self.slots().await?;
        let mut findings = Vec::new();
        for node in slots.nodes() {
            let is_there = |job: &&String| slots.node_of(slot_of(&keys.lock(job))) == Some(node);
            let jobs: Vec<_> = jobs.iter().filter(is_there).cloned().collect();
            let diagnose = |connection| diagnosis::diagnose(connection, keys, &jobs, usage);
            for finding in self.nodes.connection(node)?.exchange(diagnose).await? {
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
        Ok(findings)
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The nodes that have slots, each with its connection.
    pub(super) async fn masters(&self) -> RedisResult<Vec<(Node, Arc<Connection>)>> {
        let slots = self.slots().await?;
        slots.nodes().into_iter().map(|node| Ok((node.clone(), self.nodes.connection(node)?))).collect()
    }

    async fn slots(&self) -> RedisResult<Arc<Slots>> {
        self.slots.exchange(&self.nodes, async |slots| Ok(slots)).await
    }
}

impl Nodes {
    /// What connects to some node; to another one the next time, since this one may hang.
    pub(super) async fn client_of_any(&self) -> RedisResult<Client> {
        let slots = self.clone().dial().await?;
        let nodes = slots.nodes();
        let any = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % nodes.len().max(1);
        self.access.client(nodes.into_iter().nth(any).ok_or_else(|| no_node(0))?)
    }

    fn connection(&self, node: &Node) -> RedisResult<Arc<Connection>> {
        if let Some(connection) = self.open().get(node) {
            return Ok(connection.clone());
        }
        let new = Arc::new(Connection::to_server(self.access.client(node)?, self.timeouts));
        Ok(self.open().entry(node.clone()).or_insert(new).clone())
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Node, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots as this node knows them.
    async fn ask(self, node: Node) -> RedisResult<Slots> {
        let talk = async |mut connection: MultiplexedConnection| {
            redis::cmd("CLUSTER").arg("SLOTS").query_async::<Value>(&mut connection).await
        };
        let answer = self.connection(&node)?.exchange(talk).await?;
        let (host, port) = node;
        let unknown = || std::io::Error::other(format!("{host}:{port} lists its slots in a way of its own"));
        Ok(Slots::read(&answer, &host).ok_or_else(unknown)?)
    }
}

/// The slots are looked up when they are first needed, and anew when they have led astray.
impl Dial for Nodes {
    type Connection = Arc<Slots>;
    type Error = RedisError;

    /// Whoever gave up may have been sent to a node that is gone, whatever the others answer.
    const IF_ABANDONED: Blame = Blame::Broken;

    async fn dial(self) -> RedisResult<Arc<Slots>> {
        // Those that the URL names may have been replaced since, and any of them may hang: what most say counts.
        let known: BTreeSet<_> = self.open().keys().chain(&*self.named).cloned().collect();
        let asked = known.into_iter().map(|node| self.clone().ask(node)).collect();
        let slots = agree(asked).await.unwrap_or_else(|| Err(Self::abandoned()))?;
        let nodes = slots.nodes();
        self.open().retain(|node, _| self.named.contains(node) || nodes.contains(node));
        Ok(Arc::new(slots))
    }

    fn abandoned() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()
    }

    fn blame(error: &RedisError) -> Blame {
        match trouble::code_of(error) {
            Some("MOVED" | "CLUSTERDOWN") => Blame::Broken,
            // A node that is silent may be gone: the slots may be elsewhere by now.
            _ if trouble::blame(error) == Blame::Silent => Blame::Broken,
            _ => trouble::blame(error),
        }
    }
}

/// Where else the key is, and whether that is only for this once.
fn redirection(error: &RedisError, asked: &Node) -> Option<(Node, bool)> {
    let node = redirected(error.redirect_node()?.0, asked)?;
    Some((node, error.kind() == ErrorKind::Server(ServerErrorKind::Ask)))
}

fn no_node(slot: u16) -> RedisError {
    std::io::Error::other(format!("no node of the cluster has the slot {slot}")).into()
}
