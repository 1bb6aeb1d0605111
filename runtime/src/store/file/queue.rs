//! Limits the requests that use the disk at the same time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::{FenceChange, KeyMutexes, Swap};

/// Requests of a queue at the same time: enough for the file system to flush many with one write, and far below the limits
/// on threads and open files.
const WIDTH: usize = 32;

/// Queues that never wait for each other: ten thousand claims at midnight must not delay a keep-alive.
#[derive(Default)]
pub(super) struct DiskQueues {
    /// Requests without a lock and without a flush.
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
    /// Mutexes of the keys; swaps wait for them without a thread.
    pub(super) turns: KeyMutexes,
    room: Arc<Semaphore>,
}

impl Default for DiskQueue {
    fn default() -> Self {
        Self { turns: KeyMutexes::default(), room: Arc::new(Semaphore::new(WIDTH)) }
    }
}

impl DiskQueue {
    /// Waits until the queue has room.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("the semaphore is never closed")
    }
}
