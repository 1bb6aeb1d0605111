//! The turns of one process at a semaphore.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

use super::Requests;
use crate::store::Kind;

/// The claims and releases of this process on one semaphore take turns: only one of them at a time competes with other
/// processes.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Turn<()>>>>);

impl Turns {
    pub(super) async fn take(&self, key: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if turns.len() >= 64 {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            turns.entry(key.to_owned()).or_default().clone()
        };
        turn.lock_owned().await
    }
}

impl Requests<'_> {
    /// This process's turn, if the lease is one of a semaphore. Who has waited long goes on without it: turns only make swaps
    /// succeed sooner.
    pub(super) async fn turn(&self, key: &str, kind: Kind) -> Option<OwnedMutexGuard<()>> {
        let Kind::Slot { .. } = kind else { return None };
        timeout(self.within, self.turns.take(key)).await.ok()
    }
}
