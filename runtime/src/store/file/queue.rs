//! Which step may use the disk.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::{FenceChange, KeyMutexes, Swap};

/// Steps on the disk at once, per lane: enough for the file system to flush many with one write, and far
/// from the limits on threads and open files.
const WIDTH: usize = 32;

/// Lanes that never wait for each other: ten thousand claims at midnight must not delay a keep-alive.
#[derive(Default)]
pub(super) struct DiskQueues {
    /// Steps without a lock and without a flush.
    pub(super) looks: DiskQueue,
    /// Swaps that win a key.
    claims: DiskQueue,
    /// Swaps of holders and operators.
    holders: DiskQueue,
}

impl DiskQueues {
    pub(super) fn lane_of(&self, swap: &Swap) -> &DiskQueue {
        if swap.change.fence == FenceChange::Next { &self.claims } else { &self.holders }
    }
}

pub(super) struct DiskQueue {
    /// Of the swaps on each key; they wait for it without a thread.
    pub(super) turns: KeyMutexes,
    room: Arc<Semaphore>,
}

impl Default for DiskQueue {
    fn default() -> Self {
        Self { turns: KeyMutexes::default(), room: Arc::new(Semaphore::new(WIDTH)) }
    }
}

impl DiskQueue {
    /// Waits for room on the disk.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("the semaphore is never closed")
    }
}
