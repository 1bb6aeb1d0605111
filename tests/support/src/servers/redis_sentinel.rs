//! A Redis master with replicas and the sentinels that watch over them, all real, gone when the test is.

use std::process::Child;
use std::sync::LazyLock;
use std::time::Duration;

use redis::FromRedisValue;

use crate::fleet::wait_for;
use crate::folder::TempFolder;
use crate::hand::Hand;
use crate::home::{Server, Whereabouts};
use crate::port::free_port;
use crate::redis_server::{RedisServer, end, launch};

/// What the sentinels call the master.
const NAME: &str = "shop";

/// The user by which replicas log in, so that replication can be cut and nothing else.
const REPLICATION: &str = "ACL SETUSER replication on >replicate +psync +replconf +ping";

pub struct RedisSentinel {
    /// Which of them is the master is the sentinels' decision.
    pub servers: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
    _folder: TempFolder,
}

struct Sentinel {
    watched: Option<Child>,
    port: u16,
}

impl RedisSentinel {
    /// One master, one replica, three sentinels, who find a master that is silent for so long dead.
    pub fn start(down_after: Duration) -> Self {
        Self::start_with(down_after, &[])
    }

    /// The same, of servers with further options.
    pub fn start_with(down_after: Duration, further: &[&str]) -> Self {
        let options =
            ["--masteruser", "replication", "--masterauth", "replicate", "--repl-diskless-sync-delay", "0"];
        let start = |_| RedisServer::start_with(&[&options, further].concat());
        let servers: Vec<_> = (0..2).map(start).collect();
        let hands: Vec<_> = servers.iter().map(Hand::on).collect();
        for hand in &hands {
            let () = hand.say(REPLICATION);
        }
        let () = hands[1].say(&format!("REPLICAOF 127.0.0.1 {}", servers[0].port()));
        wait_for("the replica's copy", || is_in_sync(&hands[1]).then_some(()));
        let folder = TempFolder::new();
        let down_after = down_after.as_millis();
        let config = format!(
            "sentinel monitor {NAME} 127.0.0.1 {} 2\nsentinel down-after-milliseconds {NAME} {down_after}\n\
             sentinel failover-timeout {NAME} 2000\n",
            servers[0].port()
        );
        let sentinels = (0..3).map(|number| Sentinel::start(&folder, number, &config)).collect();
        let started = Self { servers, sentinels, _folder: folder };
        for sentinel in &started.sentinels {
            sentinel.wait_until_it_knows_the_others();
        }
        started
    }

    /// One for all tests of a program, in which nothing ever fails over.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<RedisSentinel> =
            LazyLock::new(|| RedisSentinel::start(Duration::from_secs(600)));
        &SHARED
    }

    /// The URL, with parameters such as `?wait_replicas=1`.
    pub fn url(&self, parameters: &str) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://{}/{NAME}/0{parameters}", hosts.join(","))
    }

    pub fn tell_sentinels(&self, words: &str) {
        for sentinel in &self.sentinels {
            let () = sentinel.say(words);
        }
    }

    /// The server that most sentinels name, if it agrees.
    pub fn master(&self) -> Option<usize> {
        let named = self.sentinels.iter().map(Sentinel::master);
        let named: Vec<_> = named.collect();
        let is_named = |server: &RedisServer| {
            named.iter().filter(|port| **port == server.port()).count() * 2 > named.len()
        };
        let master = self.servers.iter().position(is_named)?;
        // One that cannot be asked is not the master, or not yet.
        let role: Option<String> = Hand::on(&self.servers[master]).try_say("INFO replication").ok();
        role.filter(|role| role.contains("role:master")).map(|_| master)
    }

    /// A number that grows with every failover.
    pub fn epoch(&self) -> u64 {
        let epoch = |sentinel: &Sentinel| {
            let fields: Vec<String> = sentinel.say(&format!("SENTINEL MASTER {NAME}"));
            let value = fields.chunks(2).find(|field| field[0] == "config-epoch");
            value.and_then(|field| field[1].parse().ok()).unwrap_or_default()
        };
        self.sentinels.iter().map(epoch).max().unwrap_or_default()
    }

    /// Waits until another server than this one is the master.
    pub fn wait_for_successor_of(&self, old: usize) -> usize {
        wait_for("a failover", || self.master().filter(|master| *master != old))
    }

    /// The master goes on, and its replica no longer hears of it.
    pub fn cut_replication(&self, master: usize) {
        let hand = Hand::on(&self.servers[master]);
        let () = hand.say("ACL DELUSER replication");
        wait_for("the replica to be cut off", || {
            hand.say::<String>("INFO replication").contains("connected_slaves:0").then_some(())
        });
    }

    /// Starts a server that was killed, as a replica of the master.
    pub fn revive(&mut self, dead: usize, master: usize) {
        self.servers[dead].restart();
        let hand = Hand::on(&self.servers[dead]);
        let () = hand.say(REPLICATION);
        let () = hand.say(&format!("REPLICAOF 127.0.0.1 {}", self.servers[master].port()));
        wait_for("the replica's copy", || is_in_sync(&hand).then_some(()));
    }
}

impl Whereabouts for RedisSentinel {
    fn url(&self) -> String {
        self.url("")
    }

    /// The first server, which is the master until there is a failover.
    fn nodes(&self) -> Vec<String> {
        vec![self.servers[0].url()]
    }
}

/// Of the master: the sentinels are patient, and make no other server the master.
impl Server for RedisSentinel {
    fn kill(&mut self) {
        self.servers[0].kill();
    }

    fn restart(&mut self) {
        self.servers[0].restart();
    }
}

fn is_in_sync(replica: &Hand) -> bool {
    replica.say::<String>("INFO replication").contains("master_link_status:up")
}

impl Sentinel {
    fn start(folder: &TempFolder, number: usize, config: &str) -> Self {
        for _ in 0..5 {
            let port = free_port();
            let file = folder.path().join(format!("sentinel{number}.conf"));
            let config = format!("bind 127.0.0.1\nport {port}\n{config}");
            std::fs::write(&file, config).expect("a folder of its own");
            let file = file.display().to_string();
            if let Some(watched) =
                launch(&[&file, "--sentinel", "--loglevel", "warning"], port, folder.path())
            {
                let sentinel = Self { watched: Some(watched), port };
                // They talk to each other more often than in production. How often they ask the replicas, and
                // for how long they rely on the answers, go together, so that stays as it is. Redis before 7.0 has
                // no such command: its sentinels take some seconds longer.
                for period in ["INFO-PERIOD 1000", "PUBLISH-PERIOD 200", "ASK-PERIOD 100"] {
                    let set = Hand::at(sentinel.url()).try_say::<()>(&format!("SENTINEL DEBUG {period}"));
                    if let Err(error) = set {
                        assert!(error.to_string().contains("Unknown subcommand"), "{error}");
                    }
                }
                return sentinel;
            }
        }
        panic!("redis-server --sentinel does not start");
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn say<T: FromRedisValue>(&self, words: &str) -> T {
        Hand::at(self.url()).say(words)
    }

    fn master(&self) -> u16 {
        let (_, port): (String, u16) = self.say(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
        port
    }

    fn wait_until_it_knows_the_others(&self) {
        wait_for("the sentinels to know each other, and the replica", || {
            let known: String = self.say("INFO sentinel");
            known.contains("slaves=1,sentinels=3").then_some(())
        });
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        if let Some(watched) = self.watched.take() {
            end(watched);
        }
    }
}
