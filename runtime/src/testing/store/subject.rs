//! A store under test, and what can be done to it from outside.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::Timestamp;
use crate::store::memory::MemoryStore;
use crate::store::{SharedLock, Store};

/// A store under test.
///
/// Some promises are about what happens to a store from outside: a key is wiped, another program takes the lock. To prove
/// them the subject needs a way to do it; without one they are left out, by name.
#[derive(Clone)]
pub struct Subject {
    pub(super) store: Arc<dyn Store>,
    pub(super) wipe: Option<Arc<WipeFn>>,
    pub(super) lock: Option<Arc<dyn ExternalAccess>>,
    pub(super) open: Option<Arc<OpenFn>>,
    notifies: bool,
}

type WipeFn = dyn Fn(String) -> AccessFuture<'static> + Send + Sync;
type OpenFn = dyn Fn(&str) -> Arc<dyn Store> + Send + Sync;

/// What the methods of [`ExternalAccess`] return.
pub type AccessFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What operators, evictions, failovers and other programs do to a store whose lock they can see and set, past the store's
/// own code.
pub trait ExternalAccess: Send + Sync + 'static {
    /// The token in the lock, as other programs see it; `None` once it has expired.
    fn lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a, Option<String>>;

    /// Sets the lock, whichever token it has: up to an instant in whole milliseconds, or without an expiry.
    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> AccessFuture<'a>;

    /// Removes the lock, as an eviction or an operator does; all else stays.
    fn remove_lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a>;

    /// Removes everything about the key, its lock included.
    fn wipe<'a>(&'a self, key: &'a str) -> AccessFuture<'a>;
}

impl Subject {
    /// A store that holds nothing yet, or nothing that other tests see.
    pub fn new(store: impl Store) -> Self {
        Self { store: Arc::new(store), wipe: None, lock: None, open: None, notifies: true }
    }

    /// A way to remove everything about a key, as a restored backup would.
    #[must_use]
    pub fn wiped_by<F>(mut self, wipe: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.wipe = Some(Arc::new(move |key| Box::pin(wipe(key))));
        self
    }

    /// A way to wipe keys, and to reach the lock that other programs see: for a store that has one.
    #[must_use]
    pub fn tampered_by(mut self, tamper: impl ExternalAccess) -> Self {
        let tamper: Arc<dyn ExternalAccess> = Arc::new(tamper);
        self.lock = Some(Arc::clone(&tamper));
        self.wiped_by(move |key| {
            let tamper = Arc::clone(&tamper);
            async move { tamper.wipe(&key).await }
        })
    }

    /// Opens the same store with the keys of a namespace.
    #[must_use]
    pub fn namespaced_by<S: Store>(mut self, open: impl Fn(&str) -> S + Send + Sync + 'static) -> Self {
        self.open = Some(Arc::new(move |namespace| Arc::new(open(namespace))));
        self
    }

    /// The store sends no notifications: [`listen`](Store::listen) returns `None`, or nothing arrives.
    #[must_use]
    pub fn polled(mut self) -> Self {
        self.notifies = false;
        self
    }

    pub(super) fn can(&self, need: Capability) -> bool {
        match need {
            Capability::Wipe => self.wipe.is_some(),
            Capability::Lock => self.lock.is_some(),
            Capability::Namespaces => self.open.is_some(),
            Capability::Notifications => self.notifies,
        }
    }

    pub(super) async fn wipe(&self, key: &str) {
        let wipe = self.wipe.as_ref().expect("a promise that wipes a key needs `wipe`");
        wipe(key.to_owned()).await;
    }

    /// The lock as other programs see it.
    pub(super) fn outside(&self) -> &dyn ExternalAccess {
        self.lock.as_deref().expect("a promise about the lock needs `lock`")
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Arc<dyn Store> {
        let open = self.open.as_ref().expect("a promise about namespaces needs `namespaces`");
        open(namespace)
    }
}

/// The memory store has a lock like the one that Redis shares with other programs.
impl ExternalAccess for MemoryStore {
    fn lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a, Option<String>> {
        Box::pin(async move {
            let look = self.look(key).await.expect("memory always answers");
            look.lock.map(|lock| lock.token.to_string())
        })
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> AccessFuture<'a> {
        Self::set_lock(self, key, Some(SharedLock { token: token.into(), until }));
        Box::pin(std::future::ready(()))
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a> {
        Self::set_lock(self, key, None);
        Box::pin(std::future::ready(()))
    }

    fn wipe<'a>(&'a self, key: &'a str) -> AccessFuture<'a> {
        Self::wipe(self, key);
        Box::pin(std::future::ready(()))
    }
}

/// What a promise needs of its [`Subject`] beside the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Capability {
    /// A key can be wiped: [`Subject::wiped_by`].
    Wipe,
    /// The store has a lock that other programs see and set: [`Subject::tampered_by`].
    Lock,
    /// The store has namespaces: [`Subject::namespaced_by`].
    Namespaces,
    /// The store notifies those who wait for a key: not [`Subject::polled`].
    Notifications,
}

impl Capability {
    pub(super) const ALL: [Self; 4] = [Self::Wipe, Self::Lock, Self::Namespaces, Self::Notifications];

    /// How a subject comes by it.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Wipe => "Subject::wiped_by",
            Self::Lock => "Subject::tampered_by",
            Self::Namespaces => "Subject::namespaced_by",
            Self::Notifications => "Subject::polled",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wipe => "a way to wipe a key",
            Self::Lock => "a lock that other programs see",
            Self::Namespaces => "namespaces",
            Self::Notifications => "notifications",
        })
    }
}
