//! A store inside the process: for tests, and for a service that runs as one process.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::model::{self, Fleet, State};
use super::{
    Announcement, Bell, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ListenFuture,
    Listener, ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreFuture,
    Verdict,
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
    /// When there are so many, those that have expired are removed.
    room: usize,
    bells: HashMap<String, Vec<Bell>>,
    fleets: HashMap<String, Fleet>,
}

impl Contents {
    /// Keys that were made from data must not pile up. The room doubles with what is left, so that this stays rare.
    fn make_room(&mut self, now: Timestamp) {
        if self.states.len() >= self.room {
            self.states.retain(|_, state| !model::is_gone(state, now));
            self.room = 64.max(2 * self.states.len());
        }
    }
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
        // No key contains it.
        self.prefix = format!("{namespace}\0");
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
        if self.prefix.is_empty() { Cow::Borrowed(key) } else { Cow::Owned(format!("{}{key}", self.prefix)) }
    }

    fn ring(&self, key: &str) {
        let contents = self.contents();
        if contents.bells.is_empty() {
            return;
        }
        if let Some(bells) = contents.bells.get(self.full_key(key).as_ref()) {
            bells.iter().for_each(Bell::ring);
        }
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
            None => {
                contents.make_room(at);
                transition(contents.states.entry(key.into_owned()).or_default(), at)
            }
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
        let released = self.step(key, |state, now| model::release(state, now, lease, end));
        self.ring(key);
        released
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
        let mut asked = None;
        let counts = self.step(key, |state, now| asked.insert(model::request(state, now, request)).clone());
        if let Some(asked) = asked {
            drop(self.fleet_step(|fleet, now| model::hint(fleet, now, key, &asked)));
        }
        counts
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.step(key, |state, now| model::history(state, now))
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        let broken = self.step(key, |state, now| model::break_lock(state, now, key, remember));
        self.ring(key);
        broken
    }

    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        let (bell, listener) = Listener::new();
        let mut contents = self.contents();
        contents.bells.retain(|_, bells| {
            bells.retain(|bell| !bell.is_unheard());
            !bells.is_empty()
        });
        contents.bells.entry(self.full_key(key).into_owned()).or_default().push(bell);
        Box::pin(std::future::ready(Ok(Some(listener))))
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        let contents = self.contents();
        let at = self.clock.now();
        let ours =
            contents.states.iter().filter_map(|(key, state)| Some((key.strip_prefix(&self.prefix)?, state)));
        let ours = ours.filter(|(key, _)| !key.contains('\0'));
        stamped(at, ours.flat_map(|(key, state)| model::held(state, at, key)).collect())
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.fleet_step(|fleet, now| model::announce(fleet, now, announcement))
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.fleet_step(|fleet, now| model::leave(fleet, now, server))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.fleet_step(|fleet, now| model::servers(fleet, now))
    }
}
