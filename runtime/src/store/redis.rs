//! A store on a Redis server: each step is one Lua script, run in one round trip.
//!
//! The lock itself is what the widely used pattern has: the string `lock:<key>`, its value the token, with
//! an expiry. A program that takes the same lock by `SET lock:<key> … NX PX …` is excluded while one of
//! our runs holds it, and the other way round. Everything else is in keys without an expiry, so that only
//! an `allkeys-*` eviction policy could take them: `{lock:<key>}:state`, `{lock:<key>}:runs` and
//! `{lock:<key>}:skips`, in one cluster slot with the lock.
//!
//! Deleting the string frees nobody: the state says who holds the key, and the holder puts the string back.
//! Needs Redis 6.2 or newer, because of `SET … PXAT`.

use std::fmt;
use std::time::Duration;

use ::redis::{Client, RedisError};
use singleton_jobs_policy::{Overlap, check_name};

use super::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, History, Lease, ReleaseReply, RequestHint,
    Requested, RunRequest, ServerInfo, Stamped, Store, StoreError, StoreErrorKind, StoreFuture, Verdict,
    What,
};
use crate::Timestamp;
use connection::Connection;
use reply::Reply;
use script::Script;

mod address;
mod connection;
mod reply;
mod script;
mod trouble;

/// A store on a Redis server, reached over one shared connection that is opened when it is first needed.
pub struct RedisStore {
    location: String,
    prefix: String,
    connection: Connection,
}

impl RedisStore {
    /// Reads a URL such as `redis://user:password@host:6379/0`; connects to nothing yet.
    ///
    /// Two fleets on one server stay apart by different namespaces.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        let refuse =
            |cause: String| StoreError::new(StoreErrorKind::Misconfigured, "open", "a Redis URL", cause);
        let info = address::parse(url).map_err(refuse)?;
        let location = address::without_password(&info);
        let prefix = match namespace {
            Some(name) => {
                check_name(name, "billing").map_err(|problem| refuse(format!("namespace: {problem}")))?;
                format!("{name}:")
            }
            None => String::new(),
        };
        let client = Client::open(info).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { location, prefix, connection: Connection::new(client) })
    }

    /// How long to wait for a connection, and for the answer to a step. By default 2 s and 1 s.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.connection = self.connection.with_timeouts(connect, response);
        self
    }

    async fn step<T>(
        &self,
        step: &'static str,
        script: &Script,
        key: &str,
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        let lock_key = format!("{}lock:{key}", self.prefix);
        let talk = |connection| script.run(connection, &lock_key, &args);
        let value = self.connection.exchange(talk).await.map_err(|error| self.trouble(step, &error))?;
        Reply::stamped(value, read).ok_or_else(|| self.unreadable(step))
    }

    fn trouble(&self, step: &'static str, error: &RedisError) -> StoreError {
        StoreError::new(trouble::kind_of(error), step, &self.location, trouble::describe(error))
    }

    fn unreadable(&self, step: &'static str) -> StoreError {
        StoreError::new(StoreErrorKind::Unreadable, step, &self.location, "its answer makes no sense")
    }
}

impl Store for RedisStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let talk = async |mut connection| ::redis::cmd("TIME").query_async(&mut connection).await;
            let value = self.connection.exchange(talk).await.map_err(|error| self.trouble("ping", &error))?;
            Reply::time(value).ok_or_else(|| self.unreadable("ping"))
        })
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        let Claim { token, server, ttl, what, .. } = claim;
        let mut args = vec![token.clone(), server.clone(), micros(*ttl)];
        let mut tick = None;
        if let What::Tick(ask) = what {
            tick = Some(ask.tick);
            args.extend([
                instant(ask.tick),
                micros(ask.delay),
                micros(ask.grace),
                flag(ask.overlap == Overlap::Skip),
                ask.takeovers.to_string(),
            ]);
        } else {
            args.push(String::new());
        }
        Box::pin(self.step("claim", &script::CLAIM, key, args, move |reply| {
            reply::claim(tick)(reply).map(Verdict::from)
        }))
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        Box::pin(self.step("extend", &script::EXTEND, key, lease_args(lease), reply::extend))
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        let mut args = lease_args(lease);
        args.extend([
            end.outcome.as_str().to_owned(),
            flag(end.outcome.is_finished()),
            serde_json::json!(end.error).to_string(),
        ]);
        Box::pin(self.step("release", &script::RELEASE, key, args, reply::release))
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        let step = if paused { "pause" } else { "resume" };
        Box::pin(self.step(step, &script::SET_PAUSED, key, vec![flag(paused)], |_| Some(())))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.step("reset", &script::RESET, key, Vec::new(), |_| Some(())))
    }

    fn forget<'a>(&'a self, _key: &'a str, _quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        unimplemented!()
    }

    fn request<'a>(&'a self, _key: &'a str, _request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        unimplemented!()
    }

    fn announce<'a>(&'a self, _announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        unimplemented!()
    }

    fn leave<'a>(&'a self, _server: &'a str) -> StoreFuture<'a, ()> {
        unimplemented!()
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        unimplemented!()
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        Box::pin(self.step("history", &script::HISTORY, key, Vec::new(), reply::history))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.location).finish_non_exhaustive()
    }
}

fn lease_args(lease: &Lease) -> Vec<String> {
    vec![
        lease.token.clone(),
        lease.server.clone(),
        micros(lease.ttl),
        lease.tick.map(instant).unwrap_or_default(),
        lease.attempt.to_string(),
        lease.fence.to_string(),
        instant(lease.since),
        instant(lease.until),
    ]
}

/// Lua counts in floats, exact up to 2^53: an instant of today plus twice this stays below.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

fn micros(duration: Duration) -> String {
    duration.min(LONGEST).as_micros().to_string()
}

fn instant(timestamp: Timestamp) -> String {
    timestamp.as_micros().to_string()
}

fn flag(set: bool) -> String {
    u8::from(set).to_string()
}
