//! Which step may use the disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::store::{FenceChange, Swap};

/// Steps on the disk at once, per lane: enough for the file system to flush many with one write, and far
/// from the limits on threads and open files.
const WIDTH: usize = 32;

/// Lanes that never wait for each other: ten thousand claims at midnight must not delay a keep-alive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// Steps without a lock and without a flush.
    Looks,
    /// Swaps that win a key.
    Claims,
    /// Swaps of holders and operators.
    Holders,
}

impl Lane {
    pub(super) fn of(swap: &Swap) -> Self {
        if swap.change.fence == FenceChange::Next { Self::Claims } else { Self::Holders }
    }
}

/// Open to one step at a time.
type Gate = Arc<AsyncMutex<()>>;

#[derive(Default)]
struct Gates {
    open: HashMap<(Lane, String), Gate>,
    /// When there are so many, those that no step needs are removed.
    room: usize,
}

pub(super) struct Queue {
    gates: Mutex<Gates>,
    /// By lane.
    rooms: [Arc<Semaphore>; 3],
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { gates: Mutex::default(), rooms: std::array::from_fn(|_| Arc::new(Semaphore::new(WIDTH))) }
    }

    /// Waits until no other swap of this process and lane is on the key: in the order of arrival, and
    /// without a thread. `None` if that took too long.
    pub(super) async fn turn(&self, lane: Lane, key: &str, at_most: Duration) -> Option<OwnedMutexGuard<()>> {
        let gate = {
            let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            if gates.open.len() >= gates.room {
                gates.open.retain(|_, gate| Arc::strong_count(gate) > 1);
                gates.room = 64.max(2 * gates.open.len());
            }
            Arc::clone(gates.open.entry((lane, key.to_owned())).or_default())
        };
        timeout(at_most, gate.lock_owned()).await.ok()
    }

    /// Waits for room on the disk.
    pub(super) async fn room(&self, lane: Lane) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.rooms[lane as usize]);
        room.acquire_owned().await.expect("the semaphore is never closed")
    }
}
