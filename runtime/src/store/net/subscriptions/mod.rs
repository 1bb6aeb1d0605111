//! Hearing that a key may have come free, instead of asking again and again.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

use crate::util::lock;

/// Hears of it when a key is freed. Whoever waits still asks now and then: a message can get lost.
#[derive(Debug)]
pub struct Subscription(watch::Receiver<()>);

/// The store's end of a [`Subscription`].
#[derive(Debug)]
pub struct Notifier(watch::Sender<()>);

impl Subscription {
    /// A listener, and the bell that it hears.
    pub fn new() -> (Notifier, Self) {
        let (bell, listener) = watch::channel(());
        (Notifier(bell), Self(listener))
    }

    /// Waits until the key may have come free, counted from when the store began to listen. `false` if the store can no
    /// longer tell, and has to be asked to listen again.
    pub async fn notified(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Notifier {
    /// Tells the listener; at once, and without waiting for it.
    pub fn notify(&self) {
        self.0.send_replace(());
    }

    /// Whether nobody listens any longer.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The subscriptions that ring for what is listened for, by name. Owned by what reads from a connection: when it ends they are gone,
/// and those who listen know that they hear nothing any more.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<NotifierMap>);

#[derive(Default)]
struct NotifierMap {
    subscriptions: HashMap<String, Notifier>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Subscriptions {
    /// Begins to listen for a name. Returns the names that nobody listens for any more, too.
    pub(crate) fn subscribe(&self, name: String) -> (Subscription, Vec<String>) {
        let NotifierMap { subscriptions, room } = &mut *lock(&self.0);
        let mut unheard = Vec::new();
        if subscriptions.len() >= *room {
            let removed = subscriptions.extract_if(|other, bell| *other != name && bell.is_closed());
            unheard = removed.map(|(name, _)| name).collect();
            *room = 64.max(2 * subscriptions.len());
        }
        let bell = subscriptions.entry(name).or_insert_with(|| Subscription::new().0);
        (Subscription(bell.0.subscribe()), unheard)
    }

    pub(crate) fn notify(&self, name: &str) {
        if let Some(bell) = lock(&self.0).subscriptions.get(name) {
            bell.notify();
        }
    }
}

#[cfg(test)]
mod tests;
