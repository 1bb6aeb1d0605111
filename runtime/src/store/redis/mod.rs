//! [`Record`]: crate::store::Record
//! [permissions]: crate::guide::permissions#redis
//! [stores]: crate::guide::stores
#![doc = include_str!("../../docs/redis.md")]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use redis;
use redis::{Pipeline, RedisError, RedisResult, Value};
use singleton_jobs_policy::check_name;

use super::net::look_batch::LookBatcher;
use super::net::timeouts::Timeouts;
use super::net::tls::Certificates;
use super::{
    Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Subscription, Swap, SwapReply, Topic,
};
use crate::Timestamp;
use commands::listen::SharedPubSub;
use commands::look::{self, QuickLook};
use keys::RedisKeys;
use topology::RedisAddress;
use topology::router::Router;

mod address;
mod commands;
mod connection;
mod diagnosis;
mod errors;
mod keys;
mod topology;

#[cfg(test)]
mod tests;

/// A store on a Redis server, over one shared connection that is opened when it is first needed; on a cluster, over one
/// per node.
pub struct RedisStore {
    location: String,
    keys: Arc<RedisKeys>,
    looks: LookBatcher<RedisResult<QuickLook>>,
    timeouts: Timeouts,
    wait_replicas: usize,
    route: Router,
    /// For swaps that wait for replicas: such a connection answers nothing else meanwhile.
    waiting: Router,
    subscriptions: SharedPubSub,
}

impl RedisStore {
    /// Opens the store at a URL such as `redis://user:password@host:6379/0`. Does not connect yet. The [module](self) lists
    /// all kinds of URLs.
    ///
    /// Fleets that share a server need different namespaces.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, Certificates::default())
    }

    /// Opens the store with certificates that are not in files, for a `rediss://` URL.
    #[cfg(feature = "tls")]
    pub fn open_with(
        url: &str,
        namespace: Option<&str>,
        certificates: Certificates,
    ) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, certificates)
    }

    fn open_as(url: &str, namespace: Option<&str>, certificates: Certificates) -> Result<Self, StoreError> {
        let target = topology::parse(url).map_err(misconfigured)?;
        let RedisAddress { topology, location, wait_replicas, timeouts, certificates: in_url } = target;
        let certificates = in_url.and(certificates).map_err(misconfigured)?;
        let route = Router::new(topology, timeouts, &certificates).map_err(misconfigured)?;
        Ok(Self { wait_replicas, ..Self::over(route, timeouts, location, namespace)? })
    }

    /// Opens the store with the settings of the application's client: address, TLS, user, password and database. The store opens
    /// connections of its own with them, and speaks RESP2 over them, as with a URL. Does not connect yet.
    ///
    /// The client is one of a single server. For sentinels and clusters [open](Self::open) the store by its URL.
    ///
    /// ```no_run
    /// # async fn start(client: redis::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobs::store::redis::RedisStore;
    ///
    /// let store = RedisStore::from_client(client, None)?;
    /// let jobs = jobs::builder().store(store).start_all().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    #[allow(clippy::needless_pass_by_value, reason = "as other stores take their pools")]
    pub fn from_client(client: redis::Client, namespace: Option<&str>) -> Result<Self, StoreError> {
        let client =
            address::client_like(&client).map_err(|error| misconfigured(errors::describe(&error)))?;
        let (location, timeouts) = (topology::location(client.get_connection_info()), Timeouts::default());
        Self::over(Router::to_server_of(client, timeouts), timeouts, location, namespace)
    }

    fn over(
        route: Router,
        timeouts: Timeouts,
        location: String,
        namespace: Option<&str>,
    ) -> Result<Self, StoreError> {
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| misconfigured(format!("namespace: {problem}")))?;
            // Its locks would have the names of keys that begin with `lock:` without a namespace.
            if name == "lock" {
                return Err(misconfigured(
                    "namespace: `lock` is part of the names of all keys; choose another".to_owned(),
                ));
            }
        }
        let (keys, waiting) = (Arc::new(RedisKeys::new(namespace)), route.anew(timeouts));
        let (looks, subscriptions) = (LookBatcher::new(), SharedPubSub::new());
        Ok(Self { location, keys, looks, timeouts, wait_replicas: 0, route, waiting, subscriptions })
    }

    /// Sets the timeouts of a connection (by default 2 s) and of a response (1 s). In the URL:
    /// `redis://host?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        self.route = self.route.anew(self.timeouts);
        self.waiting = self.route.anew(self.timeouts);
        self
    }

    /// Waits until this number of replicas has a lease that is won or extended. In the URL: `wait_replicas=1`.
    ///
    /// A claim is repeated until they have it, or the tick's grace or the lease is over: then it is released, and the tick
    /// is skipped as [not replicated](crate::events::SkipReason::NotReplicated).
    #[must_use]
    pub fn with_wait_replicas(mut self, replicas: usize) -> Self {
        self.wait_replicas = replicas;
        self
    }

    async fn look_at(&self, key: &str) -> RedisResult<Look> {
        let (route, names) = (self.route.clone(), self.keys.clone());
        let send = move |keys| look::look_quickly(route, names, keys);
        let look = match &self.route {
            Router::One(connection) => {
                // Callers wait for different times. The first that waits in vain does not trust the connection.
                let guard = connection.guard();
                let look = self.looks.look(key, send).await;
                if let Some(guard) = guard {
                    guard.disarm();
                }
                look
            }
            // Keys are on several servers.
            Router::Many(_) => send(vec![key.to_owned()]).await.remove(0),
        };
        if let Some(look) = look? {
            return Ok(look);
        }
        let mut commands = Pipeline::with_capacity(look::COMMANDS_WITH_EXPIRY);
        look::add_look_with_expiry(&mut commands, &self.keys, key);
        look::read_with_expiry(&self.keys, key, self.send_reads(key, &commands).await?)
    }

    async fn send_reads(&self, key: &str, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let talk = |connection, asking| look::send(connection, commands, asking);
        self.route.exchange(&self.keys.lock(key), talk).await
    }

    /// Runs a method of the trait, and names the method in its error.
    fn step<'a, T>(
        &'a self,
        step: &'static str,
        work: impl Future<Output = RedisResult<T>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { work.await.map_err(|error| self.error(step, &error)) })
    }

    fn error(&self, step: &'static str, error: &RedisError) -> StoreError {
        let (mut kind, mut cause) = (errors::kind_of(error), errors::describe(error));
        // Only a cluster's client follows a redirection.
        if matches!(self.route, Router::One(_)) && matches!(error.code(), Some("MOVED" | "ASK")) {
            kind = StoreErrorKind::Misconfigured;
            cause.push_str(
                ": the server is one node of a cluster; write redis+cluster:// instead of redis://",
            );
        }
        StoreError::new(kind, step, &self.location, cause)
    }
}

fn misconfigured(cause: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "open", "a Redis URL", cause)
}

impl Store for RedisStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        // Most requests are looks: `step` would copy the future once more.
        Box::pin(async move { self.look_at(key).await.map_err(|error| self.error("look", &error)) })
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(self.send_swap(key, swap))
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.step("list", self.list_page(page))
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.step("records", self.read_records_of(keys, newest))
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.step("put_note", self.send_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.step("notes", self.read_notes(topic))
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        self.step("listen", self.subscribe(key))
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        self.step("diagnose", self.find_problems(jobs))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.location).finish_non_exhaustive()
    }
}
