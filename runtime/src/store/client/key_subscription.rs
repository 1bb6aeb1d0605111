//! A subscription to a key that is renewed for as long as it is needed.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::store::{Store, Subscription};

/// A store notifies for a minute after it was asked to.
const RENEW_AFTER: Duration = Duration::from_secs(30);

/// The store's notifications about a key.
pub(crate) struct KeySubscription {
    listener: Option<Subscription>,
    /// When the store was last asked to notify.
    since: Instant,
    /// The store cannot notify, and is not asked again.
    is_unsupported: bool,
}

impl Default for KeySubscription {
    fn default() -> Self {
        Self { listener: None, since: Instant::now(), is_unsupported: false }
    }
}

impl KeySubscription {
    /// Whether the store notifies.
    pub(crate) fn is_active(&self) -> bool {
        self.listener.is_some()
    }

    /// When to renew it; `None` if the store cannot notify.
    pub(crate) fn renewal(&self) -> Option<Instant> {
        let due = if self.listener.is_some() { self.since + RENEW_AFTER } else { Instant::now() };
        (!self.is_unsupported).then_some(due)
    }

    /// Subscribes to the key, or renews the subscription, if that is due. Returns whether the store confirmed it just now.
    pub(crate) async fn renew(&mut self, store: &dyn Store, key: &str, until: Instant) -> bool {
        if self.renewal().is_none_or(|due| due > Instant::now()) {
            return false;
        }
        match timeout_at(until, store.listen(key)).await {
            Ok(Ok(Some(listener))) => {
                (self.listener, self.since) = (Some(listener), Instant::now());
                true
            }
            Ok(Ok(None)) => {
                // A store that has notified can, and refuses it only now.
                self.is_unsupported = self.listener.is_none();
                false
            }
            Ok(Err(_)) | Err(_) => false, // the caller polls until it can subscribe
        }
    }

    /// Resolves when the store reports a change of the key.
    pub(crate) async fn notified(&mut self) {
        if let Some(listener) = &mut self.listener
            && listener.notified().await
        {
            return;
        }
        // The store stopped to notify, or never did. It is asked again at the next renewal.
        self.listener = None;
        std::future::pending::<()>().await;
    }
}
