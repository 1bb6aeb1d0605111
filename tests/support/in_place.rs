//! A store that is wrong on purpose: it takes the right lock, then overwrites the state where it lies.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use jobs::Timestamp;
use jobs::store::model::{self, State};
use jobs::store::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ReleaseReply,
    RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError, StoreErrorKind, StoreFuture,
    Verdict,
};

pub struct InPlaceStore {
    pub folder: PathBuf,
}

impl InPlaceStore {
    pub fn state_file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.state"))
    }

    fn step<'a, T: Send + 'a>(
        &self,
        key: &str,
        transition: impl FnOnce(&mut State, Timestamp) -> T,
    ) -> StoreFuture<'a, T> {
        let lock = File::create(self.folder.join(format!("{key}.lock"))).unwrap();
        lock.lock().unwrap();
        let path = self.state_file(key);
        let mut state = match fs::read(&path).map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => {
                let error = StoreError::new(StoreErrorKind::Unreadable, "step", self.location(), error);
                return Box::pin(std::future::ready(Err(error)));
            }
            Err(_) => State::default(),
        };
        let at = Timestamp::now();
        let reply = transition(&mut state, at);
        serde_json::to_writer(File::create(path).unwrap(), &state).unwrap();
        Box::pin(std::future::ready(Ok(Stamped { at, reply })))
    }
}

impl Store for InPlaceStore {
    fn location(&self) -> String {
        self.folder.display().to_string()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.step("ping", |_, _| ())
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

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.step(key, |state, now| model::history(state, now))
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.step(key, |state, now| model::forget(state, now, quiet))
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        self.step(key, |state, now| model::request(state, now, request))
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.step(key, |state, now| model::break_lock(state, now, key, remember))
    }

    // Of other keys and of the fleet it knows nothing.
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.step("fleet", |_, _| Vec::new())
    }

    fn announce<'a>(&'a self, _: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.step("fleet", |_, _| Vec::new())
    }

    fn leave<'a>(&'a self, _: &'a str) -> StoreFuture<'a, ()> {
        self.step("fleet", |_, _| ())
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.step("fleet", |_, _| Vec::new())
    }
}
