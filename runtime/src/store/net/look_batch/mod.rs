//! Looks that are asked for at the same time share one request: many jobs are due at the same second.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use tokio::runtime::{self, Handle};

use crate::util::{lock, yield_to_ready_tasks};

/// The most keys in one request. It is answered or fails as a whole, so it must not take much longer than a request for one key.
const MOST_KEYS: usize = 50;

/// Collects the keys that callers want to look at, until the request for them is sent.
pub(crate) struct LookBatcher<T> {
    open: Mutex<Option<OpenBatch<T>>>,
}

/// A request for several keys, which returns an answer for each.
type BatchRequest<T> = Pin<Box<dyn Future<Output = Arc<[T]>> + Send>>;

struct OpenBatch<T> {
    /// The runtime whose timers the request uses: it is not shared with callers on another one, which may end later.
    runtime: runtime::Id,
    /// `None` once the request is sent: what is asked later must not get an older answer.
    keys: Arc<Mutex<Option<Vec<String>>>>,
    /// Every caller that waits for it drives it, so that none depends on the task of another one. It is dropped with the last of
    /// them.
    batch: WeakShared<BatchRequest<T>>,
}

impl<T: Clone + Send + Sync + 'static> LookBatcher<T> {
    pub(crate) fn new() -> Self {
        Self { open: Mutex::new(None) }
    }

    /// Returns the answer for one key. `send` asks for several, and returns an answer for each, in their order.
    pub(crate) async fn look<F>(&self, key: &str, send: impl FnOnce(Vec<String>) -> F + Send + 'static) -> T
    where
        F: Future<Output = Vec<T>> + Send + 'static,
    {
        let (batch, index) = self.join(key.to_owned(), send);
        // Tasks that became ready together have all joined before the first of them drives the batch.
        yield_to_ready_tasks().await;
        batch.await[index].clone()
    }

    /// Adds a key to the open batch, or to a new one. Returns the batch, and the key's place in it.
    fn join<F>(
        &self,
        key: String,
        send: impl FnOnce(Vec<String>) -> F + Send + 'static,
    ) -> (Shared<BatchRequest<T>>, usize)
    where
        F: Future<Output = Vec<T>> + Send + 'static,
    {
        let runtime = Handle::current().id();
        let mut open = lock(&self.open);
        if let Some(OpenBatch { runtime: of_batch, keys, batch }) = &*open
            && *of_batch == runtime
            && let Some(batch) = batch.upgrade()
            && let Some(keys) = &mut *lock(keys)
            && keys.len() < MOST_KEYS
        {
            keys.push(key);
            return (batch, keys.len() - 1);
        }
        let keys = Arc::new(Mutex::new(Some(vec![key])));
        let collected = keys.clone();
        let request = async move {
            let keys = lock(&collected).take().unwrap_or_default();
            send(keys).await.into()
        };
        let batch = request.boxed().shared();
        *open = batch.downgrade().map(|batch| OpenBatch { runtime, keys, batch });
        (batch, 0)
    }
}

#[cfg(test)]
mod tests;
