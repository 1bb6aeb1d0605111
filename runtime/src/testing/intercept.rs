//! A store whose requests pass a hook of the test.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::diagnosis::Finding;
use crate::store::{
    FenceTable, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreFuture, Subscription, Swap,
    SwapReply, Topic,
};

/// One request to a store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Request<'a> {
    /// [`Store::look`] at this key.
    Look(&'a str),
    /// [`Store::swap`] of this key.
    Swap(&'a str, &'a Swap),
    /// [`Store::list`].
    List,
    /// [`Store::records`] of these keys.
    Records(&'a [String]),
    /// [`Store::put_note`].
    PutNote(Topic, &'a Note),
    /// [`Store::notes`].
    Notes(Topic),
}

/// The future that a [`Hook`]'s methods return.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// Observes each request, and may replace the store's answer by an error.
pub trait Hook: Send + Sync + 'static {
    /// Called before the store gets the request. After an error the store does not get it.
    fn before<'a>(&'a self, _request: Request<'a>) -> HookFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called after the store has answered. After an error the answer is lost.
    fn after<'a>(&'a self, _request: Request<'a>) -> HookFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called with the answer to a swap.
    fn swapped(&self, _key: &str, _swap: &Swap, _reply: &SwapReply) {}
}

/// A store whose requests pass a [`Hook`].
pub struct Intercept<H> {
    store: Arc<dyn Store>,
    hook: H,
}

impl<H: Hook> Intercept<H> {
    /// Creates a store that passes its requests to the hook and to `store`.
    pub fn new(store: Arc<dyn Store>, hook: H) -> Self {
        Self { store, hook }
    }

    /// Returns the hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    fn pass<'a, T: Send + 'a>(
        &'a self,
        request: Request<'a>,
        send: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.hook.before(request).await?;
            let answer = send(&*self.store).await;
            self.hook.after(request).await?;
            answer
        })
    }
}

impl<H: Hook> Store for Intercept<H> {
    fn location(&self) -> String {
        self.store.location()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        self.pass(Request::Look(key), move |store| store.look(key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.pass(Request::Swap(key, swap), move |store| {
            Box::pin(async move {
                let reply = store.swap(key, swap).await?;
                self.hook.swapped(key, swap, &reply);
                Ok(reply)
            })
        })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.pass(Request::List, move |store| store.list(page))
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.pass(Request::Records(keys), move |store| store.records(keys, newest))
    }

    fn fence_table(&self) -> Option<FenceTable> {
        self.store.fence_table()
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.pass(Request::PutNote(topic, note), move |store| store.put_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.pass(Request::Notes(topic), move |store| store.notes(topic))
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        self.store.listen(key)
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        self.store.diagnose(jobs)
    }
}
