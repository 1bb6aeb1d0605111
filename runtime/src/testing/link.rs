use std::sync::Mutex;
use std::time::Duration;

use crate::Timestamp;
use crate::store::memory::MemoryStore;
use crate::store::{
    JobRecords, Listener, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Topic,
};

/// One server's connection to the store of its fleet.
pub(super) struct Link {
    store: MemoryStore,
    weather: Mutex<Weather>,
}

/// What a connection suffers.
#[derive(Clone, Copy, Default)]
pub(super) struct Weather {
    /// Nothing arrives.
    pub(super) cut: bool,
    /// Requests arrive and are carried out; their replies do not come back.
    pub(super) replies_lost: bool,
    /// How long a request is on its way.
    pub(super) latency: Duration,
}

impl Link {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store, weather: Mutex::default() }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.weather.lock().expect("nobody panics with it"));
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().expect("nobody panics with it")
    }

    fn carry<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let broken = || {
            let cause = "the test has cut the connection";
            Err(StoreError::new(StoreErrorKind::Unreachable, "reach", self.store.location(), cause))
        };
        Box::pin(async move {
            let latency = self.weather().latency;
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            if self.weather().cut {
                return broken();
            }
            let reply = step().await;
            if self.weather().replies_lost { broken() } else { reply }
        })
    }
}

impl Store for Link {
    fn location(&self) -> String {
        self.store.location()
    }
    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        self.carry(|| self.store.look(key))
    }
    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.carry(|| self.store.swap(key, swap))
    }
    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.carry(move || self.store.list(page))
    }
    fn records<'a>(&'a self, key: &'a str) -> StoreFuture<'a, JobRecords> {
        self.carry(|| self.store.records(key))
    }
    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.carry(move || self.store.put_note(topic, note, ttl))
    }
    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.carry(move || self.store.notes(topic))
    }
    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Listener>> {
        self.store.listen(key)
    }
}
