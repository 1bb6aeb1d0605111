//! A store under test, and access to it from outside.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::Timestamp;
use crate::store::memory::MemoryStore;
use crate::store::{SharedLock, Store};

/// A store under test.
///
/// Some promises are about accidents and other programs: a key is wiped, another program takes the lock. They need access
/// to the store from outside; without it they are left out, by name.
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

/// The future that the methods of [`ExternalAccess`] return.
pub type AccessFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Access to a store from outside, without the store's own code, as by operators, evictions, failovers and other
/// programs. For stores with a lock that other programs see.
pub trait ExternalAccess: Send + Sync + 'static {
    /// Returns the token in the lock, as other programs see it; `None` once it has expired.
    fn lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a, Option<String>>;

    /// Sets the lock, whatever token it has: up to an instant in whole milliseconds, or without an expiry.
    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> AccessFuture<'a>;

    /// Removes the lock alone, as an eviction or an operator does.
    fn remove_lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a>;

    /// Removes everything about the key, its lock included.
    fn wipe<'a>(&'a self, key: &'a str) -> AccessFuture<'a>;
}

impl Subject {
    /// Creates a subject of a store that is empty, and that no other test uses.
    pub fn new(store: impl Store) -> Self {
        Self { store: Arc::new(store), wipe: None, lock: None, open: None, notifies: true }
    }

    /// Sets a function that removes everything about a key, as a restored backup would.
    #[must_use]
    pub fn with_wipe<F>(mut self, wipe: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.wipe = Some(Arc::new(move |key| Box::pin(wipe(key))));
        self
    }

    /// Sets the access to a store with a lock that other programs see.
    #[must_use]
    pub fn with_external_access(mut self, tamper: impl ExternalAccess) -> Self {
        let tamper: Arc<dyn ExternalAccess> = Arc::new(tamper);
        self.lock = Some(Arc::clone(&tamper));
        self.with_wipe(move |key| {
            let tamper = Arc::clone(&tamper);
            async move { tamper.wipe(&key).await }
        })
    }

    /// Sets a function that opens the same store in a namespace.
    #[must_use]
    pub fn with_namespaces<S: Store>(mut self, open: impl Fn(&str) -> S + Send + Sync + 'static) -> Self {
        self.open = Some(Arc::new(move |namespace| Arc::new(open(namespace))));
        self
    }

    /// States that the store sends no notifications.
    #[must_use]
    pub fn without_notifications(mut self) -> Self {
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

    /// Returns the access from outside.
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

/// A capability of a [`Subject`] that some promises need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Capability {
    /// A key can be wiped: [`Subject::with_wipe`].
    Wipe,
    /// The store has a lock that other programs see and set: [`Subject::with_external_access`].
    Lock,
    /// The store has namespaces: [`Subject::with_namespaces`].
    Namespaces,
    /// The store notifies those who wait for a key: not [`Subject::without_notifications`].
    Notifications,
}

impl Capability {
    pub(super) const ALL: [Self; 4] = [Self::Wipe, Self::Lock, Self::Namespaces, Self::Notifications];

    /// The method of [`Subject`] that adds it.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Wipe => "Subject::with_wipe",
            Self::Lock => "Subject::with_external_access",
            Self::Namespaces => "Subject::with_namespaces",
            Self::Notifications => "Subject::without_notifications",
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
