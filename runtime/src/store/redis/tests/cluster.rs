//! The store on a cluster of two nodes.

use super::super::super::{Look, Store, StoreErrorKind};
use super::super::RedisStore;
use super::{Server, claim, free_port, state, swap, swapped};
use crate::Timestamp;
use crate::store::redis::topology::slots::slot_of;

struct Cluster {
    nodes: [Server; 2],
    ids: [String; 2],
}

impl Cluster {
    /// Each node has one half of the slots.
    async fn start() -> Self {
        let ((one, _), (other, bus)) = (Self::start_node().await, Self::start_node().await);
        let nodes = [one, other];
        let mut ids = Vec::new();
        for (node, range) in nodes.iter().zip(["0 8191", "8192 16383"]) {
            node.send(&format!("CLUSTER ADDSLOTSRANGE {range}")).await;
            let redis::Value::BulkString(id) = node.send("CLUSTER MYID").await else { panic!("no id") };
            ids.push(String::from_utf8(id).unwrap());
        }
        let port = |node: &Server| node.url.rsplit(':').next().unwrap().to_owned();
        nodes[0].send(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", port(&nodes[1]))).await;
        for node in &nodes {
            loop {
                let redis::Value::BulkString(info) = node.send("CLUSTER INFO").await else {
                    panic!("no info")
                };
                if String::from_utf8(info).unwrap().contains("cluster_state:ok") {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
        Self { nodes, ids: ids.try_into().unwrap() }
    }

    /// A node, and the port at which other nodes reach it.
    async fn start_node() -> (Server, u16) {
        let bus = free_port();
        let options = ["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()];
        (Server::start(&options).await, bus)
    }

    fn store(&self) -> RedisStore {
        RedisStore::open(&self.nodes[0].url.replace("redis://", "redis+cluster://"), None).unwrap()
    }
}

#[tokio::test]
async fn record_in_a_slot_that_moves_is_never_absent() {
    let cluster = Cluster::start().await;
    let store = cluster.store();
    // A key whose slot the first node has.
    let key =
        (0..100).map(|n| format!("job-{n}")).find(|key| slot_of(&format!("lock:{key}")) < 8192).unwrap();
    let slot = slot_of(&format!("lock:{key}"));
    let nothing = Look::nothing(Timestamp::now());
    swapped(&store, &key, &swap(&nothing, claim(1))).await;
    let [from, to] = &cluster.nodes;
    let [from_id, to_id] = &cluster.ids;

    to.send(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).await;
    from.send(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).await;
    for moved in [false, true] {
        if moved {
            let port = to.url.rsplit(':').next().unwrap();
            from.send(&format!("MIGRATE 127.0.0.1 {port} {{lock:{key}}}:state 0 1000")).await;
        }
        // There is no lock, so the node that has the slot refers to the other one.
        let error = store.look(&key).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("is being moved"), "{error}");
        let error = store.swap(&key, &swap(&nothing, claim(2))).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    }
    for node in [to, from] {
        node.send(&format!("CLUSTER SETSLOT {slot} NODE {to_id}")).await;
    }
    let look = store.look(&key).await.unwrap();
    assert_eq!(look.state, state(1));
    swapped(&store, &key, &swap(&look, claim(2))).await;
}

#[tokio::test]
async fn pages_lead_over_all_nodes() {
    let cluster = Cluster::start().await;
    let store = cluster.store();
    let nothing = Look::nothing(Timestamp::now());
    for key in 0..50 {
        swapped(&store, &format!("job-{key}"), &swap(&nothing, claim(key))).await;
    }
    let (mut found, mut page) = (Vec::new(), None::<String>);
    loop {
        let listed = store.list(page.as_deref()).await.unwrap();
        found.extend(listed.keys.into_iter().map(|(key, _)| key));
        page = listed.next;
        if page.is_none() {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 50);
    let jobs: Vec<_> = (0..50).map(|key| format!("job-{key}")).collect();
    let findings = store.diagnose(&jobs).await.unwrap();
    assert!(findings.iter().all(|finding| !finding.message.contains("job-")), "{findings:?}");
}
