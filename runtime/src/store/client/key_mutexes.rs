//! The turns of one process at a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

use super::StoreClient;
use crate::fleet::LeaseKind;
use crate::util::lock;

/// Steps of this process on one key take turns: only one of them at a time competes with other processes.
#[derive(Default)]
pub(crate) struct KeyMutexes(Mutex<MutexMap>);

#[derive(Default)]
struct MutexMap {
    turns: HashMap<String, Arc<Turn<()>>>,
    /// When there are so many, those that no step needs are removed.
    room: usize,
}

impl KeyMutexes {
    /// Waits for the turn, in the order of arrival.
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
    /// This process's turn, if the lease is one of a semaphore. Who has waited long goes on without it: turns only make swaps
    /// succeed sooner.
    pub(super) async fn turn(&self, key: &str, kind: LeaseKind) -> Option<OwnedMutexGuard<()>> {
        let LeaseKind::Slot { .. } = kind else { return None };
        timeout(self.within, self.turns.take(key)).await.ok()
    }
}
