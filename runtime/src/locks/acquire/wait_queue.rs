//! Queues of the callers in this process that wait for a key: first in, first out. Only the first of a queue asks the
//! store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Mutex as FairMutex;

use crate::fleet::{Holder, LeaseKind};
use crate::store::KeySubscription;
use crate::util::lock;
use crate::util::watched::WatchedNumber;

/// The wait queues of a server.
#[derive(Default)]
pub(crate) struct WaitQueues(Mutex<HashMap<QueueId, Arc<WaitQueue>>>);

/// The lock of a key and the slots of a key have separate queues.
#[derive(Clone, PartialEq, Eq, Hash)]
struct QueueId {
    key: String,
    is_for_slots: bool,
}

/// The callers that wait for one key.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// The first caller holds it, and passes it on. Tokio's mutex serves its waiters in order.
    pub(crate) first: FairMutex<KeySubscription>,
    /// Counts releases on this server.
    pub(crate) releases: WatchedNumber,
    holder: Mutex<Option<Holder>>,
}

impl WaitQueue {
    /// The holder of the key when the first caller last asked.
    pub(crate) fn holder(&self) -> Option<Holder> {
        lock(&self.holder).clone()
    }

    pub(crate) fn set_holder(&self, holder: Option<Holder>) {
        *lock(&self.holder) = holder;
    }
}

impl QueueId {
    fn new(key: &str, kind: LeaseKind) -> Self {
        Self { key: key.to_owned(), is_for_slots: matches!(kind, LeaseKind::Slot { .. }) }
    }
}

impl WaitQueues {
    /// Finds or creates the queue. It exists as long as one of its tickets.
    pub(crate) fn ticket(&self, key: &str, kind: LeaseKind) -> Ticket<'_> {
        let id = QueueId::new(key, kind);
        let queue = lock(&self.0).entry(id.clone()).or_default().clone();
        Ticket { queues: self, id, queue }
    }

    /// Wakes the first caller, because this server released the lock or slot.
    pub(crate) fn wake(&self, key: &str, kind: LeaseKind) {
        if let Some(queue) = lock(&self.0).get(&QueueId::new(key, kind)) {
            queue.releases.count_up();
        }
    }

    /// Wakes the first caller for the lock, and the first for a slot.
    pub(crate) fn wake_all(&self, key: &str) {
        for is_for_slots in [false, true] {
            if let Some(queue) = lock(&self.0).get(&QueueId { key: key.to_owned(), is_for_slots }) {
                queue.releases.count_up();
            }
        }
    }
}

/// A caller's use of a queue.
pub(crate) struct Ticket<'a> {
    queues: &'a WaitQueues,
    id: QueueId,
    pub(crate) queue: Arc<WaitQueue>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues.0);
        // The reference in the map, and this one.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.id);
        }
    }
}
