//! The server that `jobs::lock` and the other free functions use.

use std::cell::RefCell;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use crate::job::current;
use crate::locks::LockError;
use crate::server::Server;
use crate::util::lock;

/// A server that may have ended.
#[derive(Clone, Default)]
pub(crate) struct WeakServer(Weak<Server>);

impl WeakServer {
    pub(crate) fn of(server: &Arc<Server>) -> Self {
        Self(Arc::downgrade(server))
    }

    pub(crate) fn get(&self) -> Option<Arc<Server>> {
        self.0.upgrade()
    }
}

impl fmt::Debug for WeakServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(server) => f.write_str(&server.id),
            None => f.write_str("ended"),
        }
    }
}

/// The servers that were started in this process, including those that are shutting down.
static STARTED: Mutex<Vec<WeakServer>> = Mutex::new(Vec::new());

thread_local! {
    /// The server of the innermost [`scope`] that this thread polls.
    static SCOPE: RefCell<Option<WeakServer>> = const { RefCell::new(None) };
}

/// Adds a server to those that were started in this process.
pub(crate) fn add_started(server: &Arc<Server>) {
    let mut started = lock(&STARTED);
    started.retain(|server| server.get().is_some());
    started.push(WeakServer::of(server));
}

/// Finds the server of the current run; else that of the scope; else the only one in this process.
pub(crate) fn find(key: &str) -> Result<Arc<Server>, LockError> {
    let of_run = current::get().and_then(|run| run.weak_server().get());
    if let Some(server) = of_run.or_else(|| SCOPE.with_borrow(Clone::clone)?.get()) {
        return Ok(server);
    }
    let started = lock(&STARTED);
    let alive: Vec<_> = started.iter().filter_map(WeakServer::get).collect();
    drop(started);
    // A server that shuts down does not count next to the one that replaces it.
    let staying: Vec<_> = alive.iter().filter(|server| !server.shutting_down.is_raised()).collect();
    match (staying.as_slice(), alive.as_slice()) {
        ([only], _) => Ok(Arc::clone(only)),
        ([], [only]) => Ok(only.clone()),
        (_, several) => Err(LockError::NoServer { key: key.to_owned(), started: several.len() }),
    }
}

/// Polls the future with this server as the default.
pub(crate) async fn scope<F: Future>(server: &Arc<Server>, future: F) -> F::Output {
    let server = WeakServer::of(server);
    let mut future = pin!(future);
    std::future::poll_fn(|polling| {
        let _previous = PreviousScope(SCOPE.replace(Some(server.clone())));
        future.as_mut().poll(polling)
    })
    .await
}

/// Restores the scope when it is dropped.
struct PreviousScope(Option<WeakServer>);

impl Drop for PreviousScope {
    fn drop(&mut self) {
        SCOPE.set(self.0.take());
    }
}
