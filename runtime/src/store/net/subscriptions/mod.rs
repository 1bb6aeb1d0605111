//! Hearing that a key may have come free, instead of asking again and again.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

use crate::util::lock;

/// Hears of it when a key is freed. Whoever waits still asks now and then: a message can get lost.
#[derive(Debug)]
pub struct Listener(watch::Receiver<()>);

/// The store's end of a [`Listener`].
#[derive(Debug)]
pub struct Bell(watch::Sender<()>);

impl Listener {
    /// A listener, and the bell that it hears.
    pub fn new() -> (Bell, Self) {
        let (bell, listener) = watch::channel(());
        (Bell(bell), Self(listener))
    }

    /// Waits until the key may have come free, counted from when the store began to listen. `false` if the store can no
    /// longer tell, and has to be asked to listen again.
    pub async fn freed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Bell {
    /// Tells the listener; at once, and without waiting for it.
    pub fn ring(&self) {
        self.0.send_replace(());
    }

    /// Whether nobody listens any longer.
    pub fn is_unheard(&self) -> bool {
        self.0.is_closed()
    }
}

/// The bells that ring for what is listened for, by name. Owned by what reads from a connection: when it ends they are gone,
/// and those who listen know that they hear nothing any more.
#[derive(Default)]
pub(crate) struct Bells(Mutex<Hanging>);

#[derive(Default)]
struct Hanging {
    bells: HashMap<String, Bell>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Bells {
    /// Begins to listen for a name. Returns the names that nobody listens for any more, too.
    pub(crate) fn hang(&self, name: String) -> (Listener, Vec<String>) {
        let Hanging { bells, room } = &mut *lock(&self.0);
        let mut unheard = Vec::new();
        if bells.len() >= *room {
            let removed = bells.extract_if(|other, bell| *other != name && bell.is_unheard());
            unheard = removed.map(|(name, _)| name).collect();
            *room = 64.max(2 * bells.len());
        }
        let bell = bells.entry(name).or_insert_with(|| Listener::new().0);
        (Listener(bell.0.subscribe()), unheard)
    }

    pub(crate) fn ring(&self, name: &str) {
        if let Some(bell) = lock(&self.0).bells.get(name) {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests;
