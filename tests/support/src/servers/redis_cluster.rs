//! A Redis Cluster of three masters and three replicas, all real, gone when the test is.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult};

use crate::fleet::wait_for;
use crate::hand::Hand;
use crate::home::{Server, Whereabouts};
use crate::redis_server::RedisServer;

pub struct RedisCluster {
    /// The first three begin as masters, each other as the replica of the one three before.
    pub nodes: Vec<RedisServer>,
}

const MASTERS: usize = 3;

/// The command by which a node takes these slots; Redis before 7.0 has none with a range.
pub fn add_slots(slots: impl Iterator<Item = usize>) -> String {
    slots.fold("CLUSTER ADDSLOTS".to_owned(), |command, slot| format!("{command} {slot}"))
}

impl RedisCluster {
    /// A cluster that finds a node dead which is silent for so long.
    pub fn start(node_timeout: Duration) -> Self {
        Self::start_with(node_timeout, &[])
    }

    /// The same, of nodes with further options.
    pub fn start_with(node_timeout: Duration, further: &[&str]) -> Self {
        let timeout = node_timeout.as_millis().to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout];
        let quick = ["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"];
        let start = |_| RedisServer::start_with(&[&options, &quick, further].concat());
        let cluster = Self { nodes: (0..2 * MASTERS).map(start).collect() };
        for number in 0..2 * MASTERS {
            let () = cluster.say(number, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            if number < MASTERS {
                let (first, last) = (number * 16384 / MASTERS, (number + 1) * 16384 / MASTERS - 1);
                let () = cluster.say(number, &add_slots(first..=last));
            }
        }
        wait_for("the nodes to meet", || cluster.meet().then_some(()));
        for number in MASTERS..2 * MASTERS {
            let master = cluster.id(number - MASTERS);
            wait_for("the replica to accept its master", || {
                cluster.try_say::<()>(number, &format!("CLUSTER REPLICATE {master}")).ok()
            });
        }
        cluster.wait_until_whole();
        cluster
    }

    fn wait_until_whole(&self) {
        for number in 0..self.nodes.len() {
            wait_for("the cluster", || self.is_whole(number).then_some(()));
        }
    }

    /// Introduces the nodes to each other; a busy machine forgets some of it, so it may take several times.
    fn meet(&self) -> bool {
        let knows_all = |number| {
            let nodes: String = self.say(number, "CLUSTER NODES");
            nodes.lines().filter(|line| !line.contains("handshake")).count() == self.nodes.len()
        };
        if (0..self.nodes.len()).all(knows_all) {
            return true;
        }
        let known: String = self.say(0, "CLUSTER NODES");
        for node in &self.nodes[1..] {
            if !known.contains(&format!("127.0.0.1:{}@", node.port())) {
                let () = self.say(0, &format!("CLUSTER MEET 127.0.0.1 {}", node.port()));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        false
    }

    /// Whether this node knows all others, and that they have their roles.
    fn is_whole(&self, number: usize) -> bool {
        let nodes: String = self.say(number, "CLUSTER NODES");
        let replicas = nodes.lines().filter(|line| line.contains("slave") && !line.contains("fail")).count();
        let in_sync = number < MASTERS
            || self.say::<String>(number, "INFO replication").contains("master_link_status:up");
        let state: String = self.say(number, "CLUSTER INFO");
        replicas == MASTERS && in_sync && state.contains("cluster_state:ok")
    }

    /// One for all tests of a program, in which nothing ever fails over.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<RedisCluster> =
            LazyLock::new(|| RedisCluster::start(Duration::from_secs(600)));
        &SHARED
    }

    /// A URL that names three of the nodes, with parameters such as `?wait_replicas=1`.
    pub fn url(&self, parameters: &str) -> String {
        let hosts = self.nodes.iter().step_by(2).map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://{}{parameters}", hosts.collect::<Vec<_>>().join(","))
    }

    pub fn say<T: FromRedisValue>(&self, number: usize, words: &str) -> T {
        Hand::on(&self.nodes[number]).say(words)
    }

    pub fn try_say<T: FromRedisValue>(&self, number: usize, words: &str) -> RedisResult<T> {
        Hand::on(&self.nodes[number]).try_say(words)
    }

    pub fn id(&self, number: usize) -> String {
        self.say(number, "CLUSTER MYID")
    }

    pub fn slot_of(&self, key: &str) -> u16 {
        let slots = (0..self.nodes.len())
            .find_map(|number| self.try_say(number, &format!("CLUSTER KEYSLOT {key}")).ok());
        slots.expect("a node that runs")
    }

    /// The node that has the slot, and says so itself.
    pub fn master_of(&self, slot: u16) -> Option<usize> {
        let has = |number: &usize| {
            let Ok(nodes) = self.try_say::<String>(*number, "CLUSTER NODES") else { return false };
            let own = nodes.lines().find(|line| line.contains("myself,master"));
            own.is_some_and(|own| own.split(' ').skip(8).any(|range| contains(range, slot)))
        };
        (0..self.nodes.len()).find(has)
    }

    /// Waits until the replica of this master has all that it has written so far.
    pub fn wait_until_copied(&self, master: usize) {
        let offset = |name: &str| {
            let info: String = self.say(master, "INFO replication");
            let (_, rest) = info.split_once(name)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let written = offset("master_repl_offset:").expect("a master");
        wait_for("the replica's copy", || offset("offset=").filter(|copied| *copied >= written));
    }

    /// Moves a slot with all its keys to another master, as an operator does.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (self.id(from), self.id(to));
        let () = self.say(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
        let () = self.say(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
        let port = self.nodes[to].port();
        loop {
            let keys: Vec<String> = self.say(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let _moved_or_expired: String =
                    self.say(from, &format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
            }
        }
        for number in [to, from] {
            let () = self.say(number, &format!("CLUSTER SETSLOT {slot} NODE {target}"));
        }
    }
}

impl Whereabouts for RedisCluster {
    fn url(&self) -> String {
        self.url("")
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }
}

impl Server for RedisCluster {
    fn kill(&mut self) {
        self.nodes.iter_mut().for_each(RedisServer::kill);
    }

    fn restart(&mut self) {
        self.nodes.iter_mut().for_each(RedisServer::restart);
        self.wait_until_whole();
    }
}

fn contains(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let ends = first.parse().ok().zip(last.parse().ok());
    ends.is_some_and(|(first, last): (u16, u16)| (first..=last).contains(&slot))
}
