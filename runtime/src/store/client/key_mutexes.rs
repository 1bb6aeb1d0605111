//! A mutex for each key, within this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

use super::StoreClient;
use crate::fleet::LeaseKind;
use crate::util::lock;

/// Mutexes by key. One request of this process at a time competes with other processes for a key.
#[derive(Default)]
pub(crate) struct KeyMutexes(Mutex<MutexMap>);

#[derive(Default)]
struct MutexMap {
    turns: HashMap<String, Arc<Turn<()>>>,
    /// At this number of mutexes, those that no request uses are removed.
    room: usize,
}

impl KeyMutexes {
    /// Locks the mutex of a key, in the order of arrival.
    pub(in crate::store) async fn take(&self, key: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let MutexMap { turns, room } = &mut *lock(&self.0);
            if turns.len() >= *room {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
                *room = 64.max(2 * turns.len());
            }
            Arc::clone(turns.entry(key.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

impl StoreClient<'_> {
    /// Locks the mutex of a semaphore's key. Continues without it after a timeout: the mutex only makes swaps succeed sooner.
    pub(super) async fn turn(&self, key: &str, kind: LeaseKind) -> Option<OwnedMutexGuard<()>> {
        let LeaseKind::Slot { .. } = kind else { return None };
        timeout(self.within, self.turns.take(key)).await.ok()
    }
}
