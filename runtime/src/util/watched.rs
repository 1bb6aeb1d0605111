//! Values that can be waited for, and that are read without a lock.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;

/// A number that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct WatchedNumber {
    number: AtomicI64,
    changed: Notify,
}

impl WatchedNumber {
    pub(crate) fn get(&self) -> i64 {
        self.number.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, number: i64) {
        self.number.store(number, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn count_up(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until the number is greater than this.
    pub(crate) async fn exceeds(&self, bound: i64) {
        loop {
            // Created before the number is read: it is notified of a change from here on, even before it is
            // first polled.
            let changed = self.changed.notified();
            if self.get() > bound {
                return;
            }
            changed.await;
        }
    }
}

/// A flag that is raised once.
#[derive(Debug, Default)]
pub(crate) struct Flag(WatchedNumber);

impl Flag {
    pub(crate) fn raise(&self) {
        self.0.set(1);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.get() > 0
    }

    /// Waits until the flag is raised.
    pub(crate) async fn raised(&self) {
        self.0.exceeds(0).await;
    }
}
