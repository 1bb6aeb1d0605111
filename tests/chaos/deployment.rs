//! The stores, and the faults of their servers.

use std::time::Duration;

use support::fleet::{send_signal, wait_for_within};
use support::hand::{Hand, StoppedServer};
use support::home::Server;
use support::mariadb_server::MariadbServer;
use support::pooler::PooledServer;
use support::postgres_server::PostgresServer;
use support::redis_cluster::RedisCluster;
use support::redis_sentinel::RedisSentinel;
use support::redis_server::RedisServer;

use super::clock::Random;
use super::disk::Disk;
use super::operator::FOREIGN_FOR;

/// A store as it is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every write is on disk before it is acknowledged.
    Redis,
    /// Writes reach the disk within a second.
    RedisEverySecond,
    RedisInMemory,
    Sentinel,
    Cluster,
    Postgres,
    Pooled,
    Files,
    Sqlite,
    Mysql,
}

/// What can be done to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreFault {
    Restart,
    Stop,
    Failover,
    ForgottenScripts,
    ClosedConnections,
    FullDisk,
}

/// A master that is silent for so long is replaced.
const DOWN_AFTER: Duration = Duration::from_millis(1500);

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

impl Kind {
    pub const ALL: [(&str, Self); 10] = [
        ("redis", Self::Redis),
        ("redis-everysec", Self::RedisEverySecond),
        ("redis-memory", Self::RedisInMemory),
        ("sentinel", Self::Sentinel),
        ("cluster", Self::Cluster),
        ("postgres", Self::Postgres),
        ("pgbouncer", Self::Pooled),
        ("files", Self::Files),
        ("sqlite", Self::Sqlite),
        ("mysql", Self::Mysql),
    ];

    pub fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{name:?} is none of {:?}", Self::ALL)).1
    }

    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).expect("all are named").0
    }

    /// The time between the ticks of a job. On PostgreSQL and MySQL a server sends one request at a time, so that it can claim no
    /// more jobs a second than it makes round trips; on a busy machine these are few. On SQLite all of them write one at a
    /// time.
    pub fn interval(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Postgres | Self::Pooled | Self::Sqlite | Self::Mysql) {
            2
        } else {
            1
        })
    }

    pub fn faults(self) -> &'static [StoreFault] {
        use StoreFault::{ClosedConnections, Failover, ForgottenScripts, FullDisk, Restart, Stop};
        match self {
            Self::Redis | Self::RedisEverySecond | Self::RedisInMemory => {
                &[Restart, Stop, ForgottenScripts, ClosedConnections]
            }
            Self::Sentinel | Self::Cluster => &[Failover, Stop, ForgottenScripts, ClosedConnections],
            Self::Postgres | Self::Pooled | Self::Mysql => &[Restart, Stop, ClosedConnections],
            Self::Files | Self::Sqlite => &[FullDisk],
        }
    }

    /// Whether the store may lose acknowledged writes by this fault.
    pub fn loses_writes(self, fault: StoreFault) -> bool {
        match fault {
            StoreFault::Restart => matches!(self, Self::RedisEverySecond | Self::RedisInMemory),
            StoreFault::Failover => true,
            _ => false,
        }
    }
}

/// A store of one run.
pub struct Deployment {
    pub kind: Kind,
    servers: Servers,
    failovers: u64,
    first_epoch: u64,
}

enum Servers {
    Single(Box<dyn Server>),
    Sentinel(RedisSentinel),
    Cluster(RedisCluster),
    Files(Disk),
}

/// A fault in progress.
pub enum Broken {
    Nothing,
    Killed {
        server: usize,
        /// A slot of a cluster that it had.
        slot: u16,
    },
    Stopped {
        _server: StoppedServer,
    },
    StoppedNodes(Vec<u32>),
}

impl Deployment {
    pub fn start(kind: Kind) -> Self {
        let persistent = |when| RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", when]);
        let servers = match kind {
            Kind::Redis => Servers::Single(Box::new(persistent("always"))),
            Kind::RedisEverySecond => Servers::Single(Box::new(persistent("everysec"))),
            Kind::RedisInMemory => Servers::Single(Box::new(RedisServer::start())),
            Kind::Sentinel => Servers::Sentinel(RedisSentinel::start(DOWN_AFTER)),
            Kind::Cluster => Servers::Cluster(RedisCluster::start(DOWN_AFTER)),
            Kind::Postgres => Servers::Single(Box::new(PostgresServer::start())),
            Kind::Pooled => Servers::Single(Box::new(PooledServer::start())),
            Kind::Mysql => Servers::Single(Box::new(MariadbServer::start())),
            Kind::Files | Kind::Sqlite => Servers::Files(Disk::mount()),
        };
        let mut deployment = Self { kind, servers, failovers: 0, first_epoch: 0 };
        deployment.first_epoch = deployment.epoch();
        deployment
    }

    pub fn url(&self) -> String {
        match &self.servers {
            Servers::Single(server) => server.url(),
            Servers::Sentinel(sentinel) => sentinel.url(""),
            Servers::Cluster(cluster) => cluster.url(""),
            Servers::Files(disk) if self.kind == Kind::Sqlite => {
                format!("sqlite://{}", disk.folder().with_extension("db").display())
            }
            Servers::Files(disk) => format!("file://{}", disk.folder().display()),
        }
    }

    /// Whether the processes are the store.
    pub fn is_local(&self) -> bool {
        matches!(self.servers, Servers::Files(_))
    }

    /// The port before which a proxy can stand. Clients of sentinels and clusters learn addresses from the servers.
    pub fn port(&self) -> Option<u16> {
        let Servers::Single(server) = &self.servers else { return None };
        let url = server.url();
        let (_, address) = url.rsplit_once(':')?;
        address.split('/').next()?.parse().ok()
    }

    /// The URL through a proxy.
    pub fn url_by(&self, proxy: u16) -> String {
        let port = self.port().expect("a single server");
        self.url().replace(&format!(":{port}/"), &format!(":{proxy}/"))
    }

    pub fn can(&self, fault: StoreFault) -> bool {
        match &self.servers {
            Servers::Files(disk) => disk.is_limited() && fault == StoreFault::FullDisk,
            _ => self.kind.faults().contains(&fault),
        }
    }

    fn redis_nodes(&self) -> Vec<Hand> {
        match &self.servers {
            Servers::Single(server) if server.url().starts_with("redis") => vec![Hand::at(server.url())],
            Servers::Sentinel(sentinel) => sentinel.servers.iter().map(Hand::on).collect(),
            Servers::Cluster(cluster) => cluster.nodes.iter().map(Hand::on).collect(),
            _ => Vec::new(),
        }
    }

    pub fn strike(&mut self, fault: StoreFault, random: &mut Random) -> Broken {
        match (fault, &mut self.servers) {
            (StoreFault::Restart, Servers::Single(server)) => server.kill(),
            (StoreFault::FullDisk, Servers::Files(disk)) => disk.fill(),
            (StoreFault::Failover, Servers::Sentinel(sentinel)) => {
                let Some(master) = sentinel.master() else { return Broken::Nothing };
                sentinel.servers[master].kill();
                self.failovers += 1;
                return Broken::Killed { server: master, slot: 0 };
            }
            (StoreFault::Failover, Servers::Cluster(cluster)) => {
                let slot = u16::try_from(random.between(0, 16383)).expect("a slot");
                let Some(master) = cluster.master_of(slot) else { return Broken::Nothing };
                cluster.nodes[master].kill();
                self.failovers += 1;
                return Broken::Killed { server: master, slot };
            }
            (StoreFault::Stop, Servers::Single(server)) if !server.url().starts_with("redis") => {
                return Broken::Stopped { _server: Hand::at(server.nodes()[0].clone()).stop_server() };
            }
            (StoreFault::Stop, _) => return Broken::StoppedNodes(self.stop_redis()),
            (StoreFault::ClosedConnections, Servers::Single(server))
                if !server.url().starts_with("redis") =>
            {
                Hand::at(server.nodes()[0].clone()).cut_connections();
            }
            (StoreFault::ClosedConnections, _) => self.tell_redis("CLIENT KILL TYPE normal"),
            (StoreFault::ForgottenScripts, _) => self.tell_redis("SCRIPT FLUSH"),
            (fault, _) => panic!("{:?} has no {fault:?}", self.kind),
        }
        Broken::Nothing
    }

    fn tell_redis(&self, words: &str) {
        for node in self.redis_nodes() {
            let _may_be_down = node.try_say::<redis::Value>(words);
        }
    }

    fn stop_redis(&self) -> Vec<u32> {
        let process = |node: Hand| {
            let info: String = node.try_say("INFO server").ok()?;
            info.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
        };
        let processes: Vec<u32> = self.redis_nodes().into_iter().filter_map(process).collect();
        for process in &processes {
            send_signal(*process, "-STOP");
        }
        processes
    }

    /// Ends a fault, and waits until the store is whole.
    pub fn repair(&mut self, fault: StoreFault, broken: Broken) {
        match (&mut self.servers, broken) {
            (Servers::Sentinel(sentinel), Broken::Killed { server: dead, .. }) => {
                let successor = || sentinel.master().filter(|master| *master != dead);
                let master = wait_for_within(PATIENCE, "a failover", successor);
                sentinel.revive(dead, master);
            }
            (Servers::Cluster(cluster), Broken::Killed { server: dead, slot }) => {
                // Without a successor it would come back as the master, with nothing.
                let successor = || cluster.master_of(slot).filter(|master| *master != dead);
                wait_for_within(PATIENCE, "a failover", successor);
                cluster.nodes[dead].restart();
                wait_for_within(PATIENCE, "the node to follow its successor", || {
                    let role: String = cluster.try_say(dead, "INFO replication").ok()?;
                    let state: String = cluster.try_say(dead, "CLUSTER INFO").ok()?;
                    let follows = role.contains("role:slave") && role.contains("master_link_status:up");
                    (follows && state.contains("cluster_state:ok")).then_some(())
                });
            }
            (_, Broken::StoppedNodes(processes)) => {
                for process in processes {
                    send_signal(process, "-CONT");
                }
            }
            (_, Broken::Stopped { .. }) => {}
            (Servers::Single(server), _) if fault == StoreFault::Restart => server.restart(),
            (Servers::Files(disk), _) if fault == StoreFault::FullDisk => disk.empty(),
            _ => {}
        }
    }

    /// Takes the lock of a job as another program would; false where programs share no lock, or it is held.
    pub fn set_foreign_lock(&self, key: &str) -> bool {
        let Servers::Single(server) = &self.servers else { return false };
        let lasts = FOREIGN_FOR.as_millis();
        let set = format!("SET lock:{key} foreign NX PX {lasts}");
        server.url().starts_with("redis")
            && Hand::at(server.url()).try_say::<Option<String>>(&set).is_ok_and(|set| set.is_some())
    }

    /// Whether servers were replaced that the harness did not kill: a busy machine can make a master seem dead.
    pub fn failed_over_by_itself(&self) -> bool {
        self.epoch() > self.first_epoch + self.failovers
    }

    fn epoch(&self) -> u64 {
        let number = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        match &self.servers {
            Servers::Cluster(cluster) => {
                let info: Option<String> =
                    (0..cluster.nodes.len()).find_map(|node| cluster.try_say(node, "CLUSTER INFO").ok());
                info.and_then(|info| number(&info, "cluster_current_epoch:")).unwrap_or_default()
            }
            Servers::Sentinel(sentinel) => sentinel.epoch(),
            _ => 0,
        }
    }
}
