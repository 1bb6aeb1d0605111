//! Subscriptions to keys that may become free, instead of polling.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

use crate::util::lock;

/// A subscription to a key. A notification can get lost, so subscribers also look at the key from time to time.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<()>);

/// Notifies a [`Subscription`]. The store keeps it.
#[derive(Debug)]
pub struct Notifier(watch::Sender<()>);

impl Subscription {
    /// Creates a subscription and its notifier.
    pub fn new() -> (Notifier, Self) {
        let (notifier, subscription) = watch::channel(());
        (Notifier(notifier), Self(subscription))
    }

    /// Waits for the next notification since the subscription began. Returns `false` if the subscription has ended, and
    /// the caller has to subscribe again.
    pub async fn notified(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Notifier {
    /// Notifies the subscription without waiting for it.
    pub fn notify(&self) {
        self.0.send_replace(());
    }

    /// Whether the subscription was dropped.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Subscriptions by name. The task that reads from a connection owns them, so that they end with the connection.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<NotifierMap>);

#[derive(Default)]
struct NotifierMap {
    notifiers: HashMap<String, Notifier>,
    /// At this number of names, those without subscribers are removed.
    room: usize,
}

impl Subscriptions {
    /// Subscribes to a name. Also returns the names that have no subscribers any more.
    pub(crate) fn subscribe(&self, name: String) -> (Subscription, Vec<String>) {
        let NotifierMap { notifiers, room } = &mut *lock(&self.0);
        let mut unused = Vec::new();
        if notifiers.len() >= *room {
            let removed = notifiers.extract_if(|other, notifier| *other != name && notifier.is_closed());
            unused = removed.map(|(name, _)| name).collect();
            *room = 64.max(2 * notifiers.len());
        }
        let notifier = notifiers.entry(name).or_insert_with(|| Subscription::new().0);
        (Subscription(notifier.0.subscribe()), unused)
    }

    pub(crate) fn notify(&self, name: &str) {
        if let Some(notifier) = lock(&self.0).notifiers.get(name) {
            notifier.notify();
        }
    }
}

#[cfg(test)]
mod tests;
