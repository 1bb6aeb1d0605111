//! A store inside the process: for tests, and for a service that runs as one process.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

use super::net::subscriptions::Subscriptions;
use super::{
    JobRecords, Look, Note, Notes, Page, Record, SharedLock, Store, StoreFuture, Subscription, Swap,
    SwapReply, Topic,
};
use crate::Timestamp;
use crate::util;
use crate::util::clock::{Clock, SystemClock};

/// A store inside the process, shared by all callers that open it by the same name.
#[derive(Clone)]
pub struct MemoryStore {
    name: String,
    prefix: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) contents: Arc<Mutex<Contents>>,
}

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) keys: HashMap<String, KeyEntry>,
    /// At this number of keys, those that have expired are removed.
    room: usize,
    /// The newest fence of a deleted record.
    pub(crate) deleted_fence: i64,
    listeners: Subscriptions,
    /// By namespace and topic, and there by name; each with its expiry.
    notes: HashMap<(String, Topic), BTreeMap<String, (Timestamp, Note)>>,
}

/// The record and the lock of one key.
#[derive(Clone, Default)]
pub(crate) struct KeyEntry {
    pub(crate) record: Option<Record>,
    /// Like the string that Redis shares with other programs, so that tests can play one.
    pub(crate) lock: Option<SharedLock>,
}

impl KeyEntry {
    fn look(&self, now: Timestamp) -> Look {
        Record::look(self.record.as_ref(), self.lock.as_ref(), now)
    }

    fn is_gone(&self, now: Timestamp) -> bool {
        let unlocked = self.lock.as_ref().is_none_or(|lock| lock.until.is_some_and(|until| until <= now));
        unlocked && self.record.as_ref().is_none_or(|record| record.is_expired(now))
    }
}

impl Contents {
    /// Removes expired keys, since keys made from data would pile up. The limit doubles with what is left, so that this stays
    /// rare.
    fn make_room(&mut self, now: Timestamp) {
        if self.keys.len() >= self.room {
            self.keys.retain(|_, entry| !entry.is_gone(now));
            self.room = 64.max(2 * self.keys.len());
        }
    }
}

static NAMED: LazyLock<Mutex<HashMap<String, Weak<Mutex<Contents>>>>> = LazyLock::new(Mutex::default);

impl MemoryStore {
    /// Creates a store that only its clones share, on this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { name: "private".to_owned(), prefix: String::new(), clock, contents: Arc::default() }
    }

    /// Opens the store of this name: the same one for every caller in the process while one of them keeps it.
    pub fn named(name: &str) -> Self {
        let mut named = util::lock(&NAMED);
        let contents = named.get(name).and_then(Weak::upgrade).unwrap_or_default();
        named.insert(name.to_owned(), Arc::downgrade(&contents));
        Self { name: name.to_owned(), prefix: String::new(), clock: Arc::new(SystemClock), contents }
    }

    /// Returns the same store with the keys of a namespace.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        // No key contains it.
        self.prefix = format!("{namespace}\0");
        self
    }

    pub(crate) fn full_key<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if self.prefix.is_empty() { Cow::Borrowed(key) } else { Cow::Owned(format!("{}{key}", self.prefix)) }
    }

    /// What [`look`](Store::look) answers.
    pub(crate) fn show(&self, key: &str) -> Look {
        let contents = util::lock(&self.contents);
        let now = self.clock.now();
        let entry = contents.keys.get(self.full_key(key).as_ref());
        entry.map_or_else(|| Look::nothing(now), |entry| entry.look(now))
    }

    /// What [`swap`](Store::swap) does.
    pub(crate) fn apply(&self, key: &str, swap: &Swap) -> SwapReply {
        let key = self.full_key(key);
        let contents = &mut *util::lock(&self.contents);
        let mut now = self.clock.now();
        if !contents.keys.contains_key(key.as_ref()) {
            contents.make_room(now);
        }
        let KeyEntry { record, lock } = contents.keys.entry(key.clone().into_owned()).or_default();
        // A record is created after the deletion of an earlier one, also on a clock that stands still: fences of deleted
        // records rest on the clock alone.
        if record.is_none() && (0..1000).contains(&(contents.deleted_fence - now.as_micros())) {
            now = Timestamp::from_micros(contents.deleted_fence + 1);
        }
        let fence = record.as_ref().map_or(0, |record| record.fence);
        let reply = Record::swap(record, Some(lock), now, swap);
        if record.is_none() {
            contents.deleted_fence = contents.deleted_fence.max(fence);
        }
        if swap.change.notify && matches!(reply, SwapReply::Swapped(_)) {
            contents.listeners.notify(&key);
        }
        reply
    }
}

fn ready<'a, T: Send + 'a>(reply: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(reply)))
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        format!("memory://{}", self.name)
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        ready(self.show(key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        ready(self.apply(key, swap))
    }

    fn list<'a>(&'a self, _page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let contents = util::lock(&self.contents);
        let now = self.clock.now();
        let ours =
            contents.keys.iter().filter_map(|(key, entry)| Some((key.strip_prefix(&self.prefix)?, entry)));
        let ours = ours.filter(|(key, entry)| !key.contains('\0') && !entry.is_gone(now));
        let mut keys: Vec<_> = ours.map(|(key, entry)| (key.to_owned(), entry.look(now))).collect();
        // Simulations are the same every time.
        keys.sort_unstable_by(|(key, _), (other, _)| key.cmp(other));
        ready(Page { keys, next: None })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let contents = util::lock(&self.contents);
        let records = |key: &String| {
            let record = contents.keys.get(self.full_key(key).as_ref())?.record.as_ref()?;
            Some(record.records.clone().newest(newest))
        };
        ready(keys.iter().map(|key| records(key).unwrap_or_default()).collect())
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let now = self.clock.now();
        let mut contents = util::lock(&self.contents);
        let notes = contents.notes.entry((self.prefix.clone(), topic)).or_default();
        notes.insert(note.name.clone(), (now + ttl, note.clone()));
        notes.retain(|_, (until, _)| *until > now);
        ready(now)
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        let now = self.clock.now();
        let contents = util::lock(&self.contents);
        let notes = contents.notes.get(&(self.prefix.clone(), topic)).into_iter().flatten();
        let living = notes.filter(|(_, (until, _))| *until > now).map(|(_, (_, note))| note.clone());
        ready(Notes { now, notes: living.collect() })
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        ready(Some(util::lock(&self.contents).listeners.subscribe(self.full_key(key).into_owned()).0))
    }
}
