//! A mutex for each key, within this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::StoreClient;
use crate::fleet::LeaseKind;
use crate::util::lock;

/// Mutexes by key. Of the requests of this process that take the mutex of a key, one at a time competes with other processes.
#[derive(Default)]
pub(crate) struct KeyMutexes(Mutex<MutexMap>);

#[derive(Default)]
struct MutexMap {
    mutexes: HashMap<String, Arc<AsyncMutex<()>>>,
    /// At this number of mutexes, those that no request uses are removed.
    room: usize,
}

impl KeyMutexes {
    /// Locks the mutex of a key, in the order of arrival.
    pub(in crate::store) async fn take(&self, key: &str) -> OwnedMutexGuard<()> {
        let mutex = {
            let MutexMap { mutexes, room } = &mut *lock(&self.0);
            if mutexes.len() >= *room {
                mutexes.retain(|_, mutex| Arc::strong_count(mutex) > 1);
                *room = 64.max(2 * mutexes.len());
            }
            Arc::clone(mutexes.entry(key.to_owned()).or_default())
        };
        mutex.lock_owned().await
    }
}

impl StoreClient<'_> {
    /// Locks the mutex of a semaphore's key. Continues without it after a timeout: the mutex only makes swaps succeed sooner.
    pub(super) async fn lock_semaphore(&self, key: &str, kind: LeaseKind) -> Option<OwnedMutexGuard<()>> {
        let LeaseKind::Slot { .. } = kind else { return None };
        timeout(self.within, self.semaphore_mutexes.take(key)).await.ok()
    }
}
