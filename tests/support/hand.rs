//! A hand on the test's Redis server: what another program, or an operator, does to it.

use jobs::store::redis::RedisStore;
use jobs::store::{ClaimReply, Store, TickClaim};
use jobs::{History, Overlap, Timestamp};
use redis::{Cmd, FromRedisValue, RedisResult};
use std::time::Duration;

use super::bench::{ask, claim_with};
use super::fleet::send_signal;
use super::redis_server::RedisServer;
use super::worker::KEY;

/// A plain client, connected anew for each command, so that it survives whatever happens to the server.
pub struct Hand {
    url: String,
}

impl Hand {
    pub fn on(redis: &RedisServer) -> Self {
        Self::at(redis.url())
    }

    pub fn at(url: String) -> Self {
        Self { url }
    }

    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_run(command).expect("the server obeys")
    }

    fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        command.query(&mut client.get_connection()?)
    }

    /// A command in words.
    pub fn say<T: FromRedisValue>(&self, words: &str) -> T {
        self.try_say(words).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// The same, to a server that may be gone or not agree.
    pub fn try_say<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        for word in words {
            command.arg(word);
        }
        self.try_run(&command)
    }

    /// The token in the job's lock.
    pub fn lock(&self) -> Option<String> {
        self.lock_of(KEY)
    }

    pub fn lock_of(&self, key: &str) -> Option<String> {
        self.say(&format!("GET lock:{key}"))
    }

    /// The newest tick that was decided.
    pub fn mark(&self) -> Option<i64> {
        self.say(&format!("HGET {{lock:{KEY}}}:state mark"))
    }

    /// What the store remembers of the job.
    pub fn history(&self) -> History {
        self.history_of(KEY)
    }

    pub fn history_of(&self, key: &str) -> History {
        self.ask(async |store| store.history(key).await.expect("its history").reply)
    }

    /// A late server asks for a tick, with all the grace of the world.
    pub fn claim(&self, tick: Timestamp) -> ClaimReply {
        let patient = TickClaim { grace: Duration::from_secs(3600), overlap: Overlap::Queue, ..ask(tick) };
        let claim = claim_with("late", Duration::from_secs(1), patient);
        self.ask(async |store| store.claim(KEY, &claim).await.expect("an answer").reply.decision)
    }

    fn ask<T>(&self, question: impl AsyncFnOnce(RedisStore) -> T) -> T {
        let store = RedisStore::open(&self.url, None).expect("a URL");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(question(store))
    }

    /// The server stands still, and its clients' requests queue up.
    pub fn stop_server(&self) -> StoppedServer {
        let info: String = self.say("INFO server");
        let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).expect("its process");
        let process = process.trim().parse().expect("a number");
        send_signal(process, "-STOP");
        StoppedServer { process }
    }
}

/// Goes on when dropped.
pub struct StoppedServer {
    process: u32,
}

impl Drop for StoppedServer {
    fn drop(&mut self) {
        send_signal(self.process, "-CONT");
    }
}
