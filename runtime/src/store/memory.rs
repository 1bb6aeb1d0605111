//! A store inside the process: for tests, and for a service that runs as one process.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::model::{self, State};
use super::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, History, Lease, ReleaseReply, RequestHint,
    Requested, RunRequest, ServerInfo, Stamped, Store, StoreFuture, Verdict,
};
use crate::Timestamp;
use crate::clock::{Clock, SystemClock};

/// A store inside the process, shared by everyone who opens it by the same name.
#[derive(Clone)]
pub struct MemoryStore {
    name: String,
    prefix: String,
    clock: Arc<dyn Clock>,
    contents: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    /// In the order in which a server that has thousands of jobs due together asks for them.
    states: BTreeMap<String, State>,
    fleets: HashMap<String, Fleet>,
}

/// The servers of one namespace, and the runs that were asked for; each until it expires.
#[derive(Default)]
struct Fleet {
    servers: BTreeMap<String, (Timestamp, Arc<str>)>,
    requested: BTreeMap<String, (Timestamp, String)>,
}

static NAMED: LazyLock<Mutex<HashMap<String, Weak<Mutex<Contents>>>>> = LazyLock::new(Mutex::default);

impl MemoryStore {
    /// A store that only its clones share, on a clock of your choice.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { name: "private".to_owned(), prefix: String::new(), clock, contents: Arc::default() }
    }

    /// The store of this name: the same one for every caller in the process while one of them keeps it.
    pub fn named(name: &str) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = named.get(name).and_then(Weak::upgrade).unwrap_or_default();
        named.insert(name.to_owned(), Arc::downgrade(&contents));
        Self { name: name.to_owned(), prefix: String::new(), clock: Arc::new(SystemClock), contents }
    }

    /// The same store with keys of their own.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        self.prefix = format!("{namespace}:");
        self
    }

    /// Changes a key's state behind everybody's back, as an operator, an eviction or a wipe would.
    pub fn tamper<T>(&self, key: &str, change: impl FnOnce(&mut State) -> T) -> T {
        change(self.contents().states.entry(self.full_key(key).into_owned()).or_default())
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full_key<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if self.prefix.is_empty() { key.into() } else { format!("{}{key}", self.prefix).into() }
    }

    fn step<'a, T: Send + 'a>(
        &self,
        key: &str,
        transition: impl FnOnce(&mut State, Timestamp) -> T,
    ) -> StoreFuture<'a, T> {
        let key = self.full_key(key);
        let mut contents = self.contents();
        let at = self.clock.now();
        let reply = match contents.states.get_mut(key.as_ref()) {
            Some(state) => transition(state, at),
            None => transition(contents.states.entry(key.into_owned()).or_default(), at),
        };
        stamped(at, reply)
    }

    fn fleet_step<'a, T: Send + 'a>(
        &self,
        step: impl FnOnce(&mut Fleet, Timestamp) -> T,
    ) -> StoreFuture<'a, T> {
        let mut contents = self.contents();
        let fleet = contents.fleets.entry(self.prefix.clone()).or_default();
        let at = self.clock.now();
        fleet.servers.retain(|_, (until, _)| *until > at);
        fleet.requested.retain(|_, (until, _)| *until > at);
        stamped(at, step(fleet, at))
    }
}

fn stamped<'a, T: Send + 'a>(at: Timestamp, reply: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(Stamped { at, reply })))
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        format!("memory://{}", self.name)
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        stamped(self.clock.now(), ())
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        self.step(key, |state, now| model::claim(state, now, claim))
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        self.step(key, |state, now| model::extend(state, now, lease))
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        self.step(key, |state, now| model::release(state, now, lease, end))
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.step(key, |state, now| model::set_paused(state, now, paused))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.step(key, model::reset)
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.step(key, |state, now| model::forget(state, now, quiet))
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        let mut hint = None;
        let counts = self.step(key, |state, now| {
            let counts = model::request(state, now, request);
            hint = Some((counts.until, counts.id.clone()));
            counts
        });
        drop(self.fleet_step(|fleet, _| fleet.requested.extend(hint.map(|hint| (key.to_owned(), hint)))));
        counts
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.step(key, |state, now| model::history(state, now))
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.fleet_step(|fleet, now| {
            let entry = (now.plus(announcement.ttl), announcement.about.clone());
            fleet.servers.insert(announcement.server.clone(), entry);
            fleet
                .requested
                .iter()
                .map(|(key, (_, id))| RequestHint { key: key.clone(), id: id.clone() })
                .collect()
        })
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.fleet_step(|fleet, _| drop(fleet.servers.remove(server)))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.fleet_step(|fleet, _| {
            // What a newer version announces may not be readable; the others still are.
            fleet.servers.values().filter_map(|(_, about)| serde_json::from_str(about).ok()).collect()
        })
    }
}
