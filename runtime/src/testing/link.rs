use std::sync::Mutex;
use std::time::Duration;

use crate::store::memory::MemoryStore;
use crate::store::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ListenFuture,
    ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Store, StoreError, StoreErrorKind,
    StoreFuture, Verdict,
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
    fn ping(&self) -> StoreFuture<'_, ()> {
        self.carry(|| self.store.ping())
    }
    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        self.carry(|| self.store.claim(key, claim))
    }
    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        self.carry(|| self.store.extend(key, lease))
    }
    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        self.carry(|| self.store.release(key, lease, end))
    }
    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.carry(move || self.store.set_paused(key, paused))
    }
    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.carry(|| self.store.reset(key))
    }
    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.carry(move || self.store.forget(key, quiet))
    }
    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        self.carry(|| self.store.request(key, request))
    }
    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.carry(|| self.store.history(key))
    }
    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.carry(move || self.store.break_lock(key, remember))
    }
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.carry(|| self.store.locks())
    }
    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        self.store.listen(key)
    }
    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.carry(|| self.store.announce(announcement))
    }
    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.carry(|| self.store.leave(server))
    }
    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.carry(|| self.store.servers())
    }
}
