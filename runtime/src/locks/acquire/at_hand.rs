//! Which scheduler is meant when none is named.

use std::cell::RefCell;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::job::current;
use crate::locks::LockError;
use crate::server::Server;

/// A scheduler that may have ended.
#[derive(Clone, Default)]
pub(crate) struct Instance(Weak<Server>);

impl Instance {
    pub(crate) fn of(server: &Arc<Server>) -> Self {
        Self(Arc::downgrade(server))
    }

    pub(crate) fn get(&self) -> Option<Arc<Server>> {
        self.0.upgrade()
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get().map_or("ended", |_| "at hand"))
    }
}

/// The schedulers that were started in this process and have not been told to stop, and those that are stopping.
static STARTED: Mutex<Vec<Instance>> = Mutex::new(Vec::new());

thread_local! {
    static SCOPE: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

/// A scheduler was started in this process.
pub(crate) fn started(server: &Arc<Server>) {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.retain(|instance| instance.get().is_some());
    started.push(Instance::of(server));
}

/// The scheduler of the current run; else the one set for a scope; else the only one in this process.
pub(crate) fn find(key: &str) -> Result<Arc<Server>, LockError> {
    let of_the_run = current::get().and_then(|run| run.instance().get());
    if let Some(server) = of_the_run.or_else(|| SCOPE.with_borrow(Clone::clone)?.get()) {
        return Ok(server);
    }
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let alive: Vec<_> = started.iter().filter_map(Instance::get).collect();
    drop(started);
    // One that is about to end steps back behind one that was started in its place.
    let staying: Vec<_> = alive.iter().filter(|server| !server.stop.is_raised()).collect();
    match (staying.as_slice(), alive.as_slice()) {
        ([only], _) => Ok(Arc::clone(only)),
        ([], [only]) => Ok(only.clone()),
        (_, several) => Err(LockError::NoInstance { key: key.to_owned(), started: several.len() }),
    }
}

/// While the future is polled, this scheduler is the one at hand.
pub(crate) async fn scope<F: Future>(server: &Arc<Server>, future: F) -> F::Output {
    let instance = Instance::of(server);
    let mut future = pin!(future);
    std::future::poll_fn(|polling| {
        let _scope = Scope(SCOPE.replace(Some(instance.clone())));
        future.as_mut().poll(polling)
    })
    .await
}

struct Scope(Option<Instance>);

impl Drop for Scope {
    fn drop(&mut self) {
        SCOPE.set(self.0.take());
    }
}
