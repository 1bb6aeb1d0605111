#![doc = include_str!("../docs/redis.md")]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, RedisError, Value};
use serde::de::DeserializeOwned;
use singleton_jobs_policy::check_name;

use super::timeouts::Timeouts;
use super::tls::Certificates;
use super::{
    Finding, JobRecords, Listener, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Swap, SwapReply, Topic,
};
use crate::Timestamp;
use keys::Keys;
use listen::Subscriptions;
use look::Misread;
use route::Route;
use script::Script;
use topology::Target;

mod address;
mod cluster;
mod connection;
mod diagnosis;
mod keys;
mod list;
mod listen;
mod look;
mod notes;
mod quorum;
mod route;
mod script;
mod sentinel;
mod slots;
mod swap;
mod token;
mod topology;
mod trouble;

#[cfg(test)]
mod tests;

/// How long a swap notifies those who listen to its key.
const LISTENING: Duration = Duration::from_secs(60);

/// A store on a Redis server, reached over one shared connection that is opened when it is first needed; on a
/// cluster, over one per node.
pub struct RedisStore {
    location: String,
    keys: Keys,
    timeouts: Timeouts,
    wait_replicas: usize,
    route: Route,
    /// For swaps that wait for replicas: a connection that waits answers nothing else.
    waiting: Route,
    subscriptions: Subscriptions,
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
            // Its locks would be named like those of keys that begin with `lock:`, in no namespace.
            if name == "lock" {
                return Err(refuse(
                    "namespace: `lock` is taken by the names of the keys; choose another".to_owned(),
                ));
            }
        }
        let certificates = Arc::new(certificates.and_those_in(&parameters.files).map_err(refuse)?);
        let timeouts = parameters.timeouts;
        let route = || Route::new(&topology, timeouts, &certificates).map_err(refuse);
        let (route, waiting) = (route()?, route()?);
        let (keys, wait_replicas) = (Keys::new(namespace), parameters.wait_replicas);
        Ok(Self {
            location,
            keys,
            timeouts,
            wait_replicas,
            route,
            waiting,
            subscriptions: Subscriptions::new(),
        })
    }

    /// How long to wait for a connection, and for the answer to a request. By default 2 s and 1 s, or what the URL says:
    /// `redis://host?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        self.route = self.route.with_timeouts(self.timeouts);
        self.waiting = self.waiting.with_timeouts(self.timeouts);
        self
    }

    /// Waits until so many replicas have a lease that is won or extended; `wait_replicas=1` in the URL does the same.
    ///
    /// A claim is repeated until they have it, or the tick's grace or the lease is over: then it is released, and the tick
    /// is skipped as [not replicated](crate::SkipReason::NotReplicated).
    #[must_use]
    pub fn with_wait_replicas(mut self, replicas: usize) -> Self {
        self.wait_replicas = replicas;
        self
    }

    async fn look_at(&self, step: &'static str, key: &str) -> Result<Look, StoreError> {
        let mut commands = Pipeline::with_capacity(look::COMMANDS);
        look::add_look(&mut commands, &self.keys, key);
        let look = look::read(self.send_reads(step, key, &commands).await?);
        look.map_err(|misread| self.misread(step, key, misread))
    }

    async fn send_reads(
        &self,
        step: &'static str,
        key: &str,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let talk = |connection, asking| look::send(connection, commands, asking);
        let answers = match &self.route {
            // One server has all keys.
            Route::One(_) => self.route.exchange("", talk).await,
            Route::Many(_) => self.route.exchange(&self.keys.lock(key), talk).await,
        };
        answers.map_err(|error| self.trouble(step, &error, None))
    }

    async fn read_records(&self, key: &str) -> Result<JobRecords, StoreError> {
        let lists = [self.keys.runs(key), self.keys.skips(key)];
        let mut commands = Pipeline::with_capacity(2);
        for list in &lists {
            commands.cmd("LRANGE").arg(list).arg(0).arg(-1);
        }
        let mut answers = self.send_reads("records", key, &commands).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let (runs, skips) = (next(), next());
        Ok(JobRecords { runs: self.entries(&lists[0], runs)?, skips: self.entries(&lists[1], skips)? })
    }

    fn entries<T: DeserializeOwned>(&self, list: &str, answer: Value) -> Result<Vec<T>, StoreError> {
        let answer = answer.extract_error().map_err(|error| self.trouble("records", &error, None))?;
        let Value::Array(entries) = answer else {
            return Err(self.unreadable("records", format!("{list} is not a list")));
        };
        let read = |entry: &Value| serde_json::from_str(look::text_of(entry).unwrap_or_default());
        let entries: Result<_, serde_json::Error> = entries.iter().map(read).collect();
        entries.map_err(|error| self.unreadable("records", format!("{list} has a damaged entry ({error})")))
    }

    /// Subscribes, and marks the key as awaited meanwhile: then swaps publish.
    async fn subscribe(&self, key: &str) -> Result<Option<Listener>, StoreError> {
        let awaited = self.keys.awaited(key);
        let mark = |connection, asking| {
            let mut set = redis::cmd("SET");
            set.arg(&awaited).arg("").arg("PX").arg(LISTENING.as_millis());
            script::send(connection, asking, None, set)
        };
        let subscribed = tokio::try_join!(
            self.subscriptions.listen(self.route.dialer(), self.timeouts, self.keys.channel(key)),
            self.route.exchange(&awaited, mark),
        );
        match subscribed {
            Ok((listener, _)) => Ok(Some(listener)),
            // This user may not: the caller polls.
            Err(error) if trouble::kind_of(&error) == StoreErrorKind::Refused => Ok(None),
            Err(error) => Err(self.trouble("listen", &error, None)),
        }
    }

    fn trouble(&self, step: &'static str, error: &RedisError, script: Option<&Script>) -> StoreError {
        let (mut kind, mut cause) = (trouble::kind_of(error), trouble::describe(error, script));
        // Only a cluster's client follows it to the other node.
        if matches!(self.route, Route::One(_)) && matches!(trouble::code_of(error), Some("MOVED" | "ASK")) {
            kind = StoreErrorKind::Misconfigured;
            cause.push_str(
                ": the server is one node of a cluster; write redis+cluster:// instead of redis://",
            );
        }
        StoreError::new(kind, step, &self.location, cause)
    }

    fn misread(&self, step: &'static str, key: &str, misread: Misread) -> StoreError {
        match misread {
            Misread::Refused(error) => self.trouble(step, &error, None),
            Misread::Record(why) => self.unreadable(step, format!("{} {why}", self.keys.record(key))),
        }
    }

    fn unreadable(&self, step: &'static str, why: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Unreadable, step, &self.location, why.into())
    }
}

impl Store for RedisStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        Box::pin(self.look_at("look", key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(self.send_swap(key, swap))
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        Box::pin(self.list_page(page))
    }

    fn records<'a>(&'a self, key: &'a str) -> StoreFuture<'a, JobRecords> {
        Box::pin(self.read_records(key))
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        Box::pin(self.send_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        Box::pin(self.read_notes(topic))
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Listener>> {
        Box::pin(self.subscribe(key))
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        Box::pin(async move {
            let found = self.route.diagnose(&self.keys, jobs, self.wait_replicas).await;
            found.map_err(|error| self.trouble("diagnose", &error, None))
        })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.location).finish_non_exhaustive()
    }
}
