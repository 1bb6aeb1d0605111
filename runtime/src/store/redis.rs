//! A store on Redis: each step is one Lua script, run in one round trip.
//!
//! The lock itself is what the widely used pattern has: the string `lock:<key>`, its value the token, with
//! an expiry. A program that takes the same lock by `SET lock:<key> … NX PX …` is excluded while one of
//! our runs holds it, and the other way round. Everything else about a job is in keys without an expiry, so that only
//! an `allkeys-*` eviction policy could take them: `{lock:<key>}:state`, `{lock:<key>}:runs` and
//! `{lock:<key>}:skips`, in one cluster slot with the lock. Of a key that no job has, and of slots (`{lock:<key>}:slots`),
//! all of it expires by itself, and a `volatile-*` policy may take it before: set `noeviction`. Beside the jobs, the
//! servers announce themselves in `{servers}:*`, which expires a day after the last of them is gone.
//!
//! Deleting the string frees nobody: the state says who holds the key, and the holder puts the string back.
//! Needs Redis 6.2 or newer, because of `SET … PXAT`. Only Redis 7.0 is tested: other servers that speak its protocol
//! may do, but nobody has tried.
//!
//! | deployed as | URL | feature |
//! |---|---|---|
//! | one server | `redis://user:password@host:6379/0`, `redis+unix:///run/redis.sock?db=0` | `redis` |
//! | a master with replicas and sentinels | `redis+sentinel://user:password@host1:26379,host2:26379/mastername/0` | `sentinel` |
//! | a cluster | `redis+cluster://user:password@host1:6379,host2:6379` | `cluster` |
//!
//! Parameters follow a `?`, and any other than these is refused: `wait_replicas=1`, `connect_timeout=2s`,
//! `response_timeout=1s`, and the certificates below; for sentinels that have a password of their own,
//! `sentinel_password` and `sentinel_username`; for a socket, `db`, `user` and `pass`; for one server `protocol`, without
//! effect. In a password write `/`, `?`, `#` and `@` as `%2F`, `%3F`, `%23` and `%40`.
//!
//! **TLS.** With the crate's feature `tls`, the schemes `rediss`, `rediss+sentinel` and `rediss+cluster` are encrypted, and
//! certificates are always verified: by the system's root certificates, or by those in a file,
//! `rediss://host:6380?sslrootcert=/etc/ssl/redis-ca.pem`. A server that wants to know its clients by their certificates
//! is shown `&sslcert=…&sslkey=…`. The files are PEM, and are read once, at start.
//!
//! **Sentinel.** For every connection the sentinels are asked anew, all at once, and what most of them name is believed
//! once it says of itself that it is the master. A connection that breaks, falls silent or turns out to lead to a
//! replica is given up. List all sentinels: they are not learned from each other.
//!
//! **Cluster.** A step goes to the node that has the job's slot, over that node's own connection, and follows the slot
//! when it moves. A node that hangs delays the jobs in its slots only. While a slot is being moved, its jobs' steps are
//! refused and repeated until it has arrived; leases outlast that unless it takes longer than they last. Each node has a
//! clock of its own, and a job follows that of the node that has it: keep them together, by NTP.
//!
//! # What a failover can lose
//!
//! Redis answers before its replicas have a write. A failover can therefore lose the newest: a run that goes on puts its
//! lease back as soon as there is a master, and fences keep growing, but a tick whose claim is lost may be started by a
//! second server. `wait_replicas=N` closes that gap for claims: a run starts only when `N` replicas have its claim. With
//! fewer, the claim is repeated until the tick's grace, or the lease, is over; then it is given back, and the tick is
//! skipped as [not replicated](crate::SkipReason::NotReplicated). Three things to know:
//!
//! - The replica that is promoted must be one of those that had the claim. With one replica per master `N = 1` is
//!   enough; with more, sentinels and clusters prefer the one that is ahead, but only a `N` that counts all of them
//!   leaves nothing to luck, and stops all jobs while one of them is away.
//! - Ends of runs are not waited for. If one is lost, the run counts as crashed when its lease is over, and with
//!   `on_crash = "retry"` its tick is taken over.
//! - A master that is cut off from the rest goes on to accept writes until it learns of its successor. Set
//!   `min-replicas-to-write 1` and `min-replicas-max-lag 10` on the servers, so that it soon refuses them.
//!
//! A server that wins makes one more round trip with `wait_replicas`, and one that loses none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::check_name;

use super::timeouts::Timeouts;
use super::tls::Certificates;
use super::{
    Announcement, Claim, Ending, ExtendReply, FindingsFuture, ForgetReply, HeldLock, History, Kind, Lease,
    ListenFuture, ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError,
    StoreErrorKind, StoreFuture, Verdict, model,
};
use crate::Timestamp;
use keys::Keys;
use listen::Ear;
use reply::Reply;
use topology::Target;
use way::Way;

mod address;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod agreement;
mod arguments;
#[cfg(feature = "cluster")]
mod cluster;
mod connection;
mod diagnosis;
mod keys;
mod listen;
mod parameters;
mod reply;
mod script;
#[cfg(feature = "sentinel")]
mod sentinel;
#[cfg(feature = "cluster")]
mod slots;
mod snapshot;
mod steps;
mod topology;
mod trouble;
mod way;

/// A store on a Redis server, reached over one shared connection that is opened when it is first needed; on a
/// cluster, over one per node.
pub struct RedisStore {
    location: String,
    keys: Keys,
    timeouts: Timeouts,
    wait_replicas: usize,
    way: Way,
    /// A way of its own for claims that wait for replicas, since a connection that waits answers nobody else.
    waiting: Way,
    ear: Ear,
}

impl RedisStore {
    /// Reads a URL such as `redis://user:password@host:6379/0`; connects to nothing yet. The [module](self) lists all
    /// kinds of URLs.
    ///
    /// Two fleets on one server stay apart by different namespaces.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, Certificates::default())
    }

    /// The same with certificates that are not in files, for a `rediss://` URL.
    #[cfg(feature = "tls")]
    pub fn open_with(
        url: &str,
        namespace: Option<&str>,
        certificates: Certificates,
    ) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, certificates)
    }

    fn open_as(url: &str, namespace: Option<&str>, certificates: Certificates) -> Result<Self, StoreError> {
        let refuse =
            |cause: String| StoreError::new(StoreErrorKind::Misconfigured, "open", "a Redis URL", cause);
        let Target { topology, parameters, location } = topology::parse(url).map_err(refuse)?;
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| refuse(format!("namespace: {problem}")))?;
        }
        let certificates = Arc::new(certificates.and_those_in(&parameters.files).map_err(refuse)?);
        let timeouts = parameters.timeouts;
        let way = || Way::new(&topology, timeouts, &certificates).map_err(refuse);
        let (way, waiting) = (way()?, way()?);
        let (keys, wait_replicas) = (Keys::new(namespace), parameters.wait_replicas);
        Ok(Self { location, keys, timeouts, wait_replicas, way, waiting, ear: Ear::new() })
    }

    /// How long to wait for a connection, and for the answer to a step. By default 2 s and 1 s, or what the URL says:
    /// `redis://host?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        self.way = self.way.with_timeouts(self.timeouts);
        self.waiting = self.waiting.with_timeouts(self.timeouts);
        self
    }

    /// Starts a run only when so many replicas have its claim; `wait_replicas=1` in the URL does the same.
    ///
    /// The claim is repeated until they have it, or the tick's grace or the lease is over: then it is given back,
    /// and the tick is skipped as [not replicated](crate::SkipReason::NotReplicated).
    #[must_use]
    pub fn with_wait_replicas(mut self, replicas: usize) -> Self {
        self.wait_replicas = replicas;
        self
    }
}

impl Store for RedisStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let [any, ..] = self.keys.of_fleet();
            let value = self.way.time(&any).await.map_err(|error| self.trouble("ping", &error, None))?;
            Reply::time(value).ok_or_else(|| self.unreadable("ping"))
        })
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        Box::pin(self.claim_and_confirm(key, claim))
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

    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        Box::pin(async move {
            let heard = self.ear.listen(self.way.door(), self.timeouts, self.keys.channel(key)).await;
            match heard {
                Ok(listener) => Ok(Some(listener)),
                // This user may not: whoever waits asks again and again.
                Err(error) if trouble::kind_of(&error) == StoreErrorKind::Refused => Ok(None),
                Err(error) => Err(self.trouble("listen", &error, None)),
            }
        })
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

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> FindingsFuture<'a> {
        Box::pin(async move {
            let found = self.way.look(&self.keys, jobs, self.wait_replicas).await;
            found.map_err(|error| self.trouble("diagnose", &error, None))
        })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.location).finish_non_exhaustive()
    }
}
