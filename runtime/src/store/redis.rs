//! A store on a Redis server: each step is one Lua script, run in one round trip.
//!
//! The lock itself is what the widely used pattern has: the string `lock:<key>`, its value the token, with
//! an expiry. A program that takes the same lock by `SET lock:<key> … NX PX …` is excluded while one of
//! our runs holds it, and the other way round. Everything else is in keys without an expiry, so that only
//! an `allkeys-*` eviction policy could take them: `{lock:<key>}:state`, `{lock:<key>}:runs` and
//! `{lock:<key>}:skips`, in one cluster slot with the lock. Beside the jobs, the servers announce themselves in
//! `{servers}:*`, which expires a day after the last of them is gone.
//!
//! Deleting the string frees nobody: the state says who holds the key, and the holder puts the string back.
//! Needs Redis 6.2 or newer, because of `SET … PXAT`.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use ::redis::{Client, RedisError};
use singleton_jobs_policy::check_name;

use crate::Timestamp;

use super::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Kind, Lease, ReleaseReply,
    RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError, StoreErrorKind, StoreFuture,
    Verdict, What, model,
};
use connection::Connection;
use keys::Keys;
use reply::Reply;
use script::Script;

mod address;
mod arguments;
mod connection;
mod keys;
mod reply;
mod script;
mod snapshot;
mod trouble;

/// A store on a Redis server, reached over one shared connection that is opened when it is first needed.
pub struct RedisStore {
    location: String,
    keys: Keys,
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
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| refuse(format!("namespace: {problem}")))?;
        }
        let client = Client::open(info).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { location, keys: Keys::new(namespace), connection: Connection::new(client) })
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
        keys: &[String],
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        let talk = |connection| script.run(connection, keys, &args);
        let value = self.connection.exchange(talk).await.map_err(|error| self.trouble(step, &error))?;
        Reply::stamped(value, read).ok_or_else(|| self.unreadable(step))
    }

    async fn job_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        key: &str,
        mut args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        args.insert(0, model::FORMAT.to_string());
        self.key_step(step, script, key, args, read).await
    }

    async fn key_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        key: &str,
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        self.step(step, script, &self.keys.of_job(key), args, read).await
    }

    /// The keys of which a lock or a slot may be held, found by a walk over the whole database, in small steps.
    async fn held_keys(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut keys = BTreeSet::new();
        for pattern in self.keys.patterns() {
            let mut cursor = 0_u64;
            loop {
                let mut scan = ::redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000);
                let talk = async |mut connection| scan.query_async(&mut connection).await;
                let page: Result<(u64, Vec<String>), _> = self.connection.exchange(talk).await;
                let (next, names) = page.map_err(|error| self.trouble("locks", &error))?;
                keys.extend(names.iter().filter_map(|name| self.keys.key_of(name)).map(str::to_owned));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(keys)
    }

    async fn fleet_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        self.step(step, script, &self.keys.of_fleet(), args, read).await
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
        if let What::Slot(of) = claim.what {
            let args = arguments::of_slot_claim(claim, of);
            return Box::pin(self.key_step("claim", &script::SLOT_CLAIM, key, args, reply::slot_claim));
        }
        let args = arguments::of_claim(claim);
        Box::pin(self.job_step("claim", &script::CLAIM, key, args, |reply| reply::claim(reply, &claim.what)))
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        if let Kind::Slot { of } = lease.kind {
            let args = arguments::of_slot(lease, of);
            return Box::pin(self.key_step("extend", &script::SLOT_EXTEND, key, args, reply::extend));
        }
        let args = arguments::of_lease(lease);
        Box::pin(self.job_step("extend", &script::EXTEND, key, args, reply::extend))
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        if let Kind::Slot { .. } = lease.kind {
            let args = arguments::of_slot_release(lease);
            return Box::pin(self.key_step("release", &script::SLOT_RELEASE, key, args, reply::release));
        }
        let args = [arguments::of_lease(lease), arguments::of_ending(end)].concat();
        Box::pin(self.job_step("release", &script::RELEASE, key, args, reply::release))
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        let args = vec![arguments::count(remember)];
        Box::pin(self.job_step("break_lock", &script::BREAK_LOCK, key, args, |reply| reply::held(reply, key)))
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        Box::pin(async move {
            let mut found = Stamped { at: Timestamp::default(), reply: Vec::new() };
            for key in self.held_keys().await? {
                let read = |reply: &mut Reply| reply::held(reply, &key);
                let held = self.job_step("locks", &script::HELD, &key, Vec::new(), read).await?;
                found.at = held.at;
                found.reply.extend(held.reply);
            }
            if found.reply.is_empty() {
                found.at = self.ping().await?.at;
            }
            Ok(found)
        })
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        let step = if paused { "pause" } else { "resume" };
        let args = vec![arguments::flag(paused)];
        Box::pin(self.job_step(step, &script::SET_PAUSED, key, args, |_| Some(())))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.job_step("reset", &script::RESET, key, Vec::new(), |_| Some(())))
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        let args = vec![arguments::micros(quiet)];
        Box::pin(self.job_step("forget", &script::FORGET, key, args, reply::forget))
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        Box::pin(async move {
            let args = arguments::of_request(request);
            let counts = self.job_step("request", &script::REQUEST, key, args, reply::request).await?;
            // In a step of its own, because the fleet may be in another slot of a cluster than the job. Whoever
            // repeats the request after an error is given the same one, and puts the hint again.
            let args = arguments::of_hint(key, &counts.reply);
            self.fleet_step("request", &script::HINT, args, |_| Some(())).await?;
            Ok(counts)
        })
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        Box::pin(async move {
            let stored = self.job_step("history", &script::HISTORY, key, Vec::new(), snapshot::read);
            let Stamped { at, reply: state } = stored.await?;
            Ok(Stamped { at, reply: model::history(&state, at) })
        })
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        let args = arguments::of_announcement(announcement);
        Box::pin(self.fleet_step("announce", &script::ANNOUNCE, args, reply::hints))
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.fleet_step("leave", &script::LEAVE, vec![server.to_owned()], |_| Some(())))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        Box::pin(self.fleet_step("servers", &script::SERVERS, Vec::new(), reply::servers))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.location).finish_non_exhaustive()
    }
}
