//! A store inside the process: for tests, and for a service that runs as one process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::model::{self, State};
use super::{
    Claim, ClaimReply, Ending, ExtendReply, History, Lease, ReleaseReply, Stamped, Store, StoreFuture,
};
use crate::clock::{Clock, SystemClock};

/// A store inside the process, shared by everyone who opens it by the same name.
#[derive(Clone)]
pub struct MemoryStore {
    name: String,
    prefix: String,
    clock: Arc<dyn Clock>,
    states: Arc<States>,
}

type States = Mutex<HashMap<String, State>>;

static NAMED: LazyLock<Mutex<HashMap<String, Weak<States>>>> = LazyLock::new(Mutex::default);

impl MemoryStore {
    /// A store that only its clones share, on a clock of your choice.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { name: "private".to_owned(), prefix: String::new(), clock, states: Arc::default() }
    }

    /// The store of this name: the same one for every caller in the process while one of them keeps it.
    pub fn named(name: &str) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let states = named.get(name).and_then(Weak::upgrade).unwrap_or_default();
        named.insert(name.to_owned(), Arc::downgrade(&states));
        Self { name: name.to_owned(), prefix: String::new(), clock: Arc::new(SystemClock), states }
    }

    /// The same store with keys of their own.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        self.prefix = format!("{namespace}:");
        self
    }

    /// Changes a key's state behind everybody's back, as an operator, an eviction or a wipe would.
    pub fn tamper<T>(&self, key: &str, change: impl FnOnce(&mut State) -> T) -> T {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(self.state(&mut states, key))
    }

    fn state<'s>(&self, states: &'s mut HashMap<String, State>, key: &str) -> &'s mut State {
        let key = if self.prefix.is_empty() {
            Cow::Borrowed(key)
        } else {
            Cow::Owned(format!("{}{key}", self.prefix))
        };
        if !states.contains_key(key.as_ref()) {
            states.insert(key.clone().into_owned(), State::default());
        }
        states.get_mut(key.as_ref()).expect("it is there")
    }

    fn step<'a, T: Send + 'a>(
        &self,
        key: &str,
        transition: impl FnOnce(&mut State, crate::Timestamp) -> T,
    ) -> StoreFuture<'a, T> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state(&mut states, key);
        let at = self.clock.now();
        let stamped = Stamped { at, reply: transition(state, at) };
        Box::pin(std::future::ready(Ok(stamped)))
    }
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        format!("memory://{}", self.name)
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        let at = self.clock.now();
        Box::pin(std::future::ready(Ok(Stamped { at, reply: () })))
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, ClaimReply> {
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
        self.step(key, |state, _| model::set_paused(state, paused))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.step(key, model::reset)
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.step(key, |state, _| state.history())
    }
}
