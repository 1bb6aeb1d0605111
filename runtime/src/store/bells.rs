//! Whom to tell of what is heard over a connection that listens.
//!
//! What reads from the connection owns the bells: when it ends they are gone, and those who listen know that they hear
//! nothing any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Bell, Listener};

/// The bells that ring for what is listened for, by name.
#[derive(Default)]
pub(super) struct Bells(Mutex<Hanging>);

#[derive(Default)]
struct Hanging {
    bells: HashMap<String, Bell>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Bells {
    /// Begins to listen for a name. Returns the names that nobody listens for any more, too.
    pub(super) fn hang(&self, name: String) -> (Listener, Vec<String>) {
        let mut hanging = self.hanging();
        let Hanging { bells, room } = &mut *hanging;
        let mut unheard = Vec::new();
        if bells.len() >= *room {
            let removed = bells.extract_if(|other, bell| *other != name && bell.is_unheard());
            unheard = removed.map(|(name, _)| name).collect();
            *room = 64.max(2 * bells.len());
        }
        let bell = bells.entry(name).or_insert_with(|| Listener::new().0);
        (bell.listener(), unheard)
    }

    pub(super) fn ring(&self, name: &str) {
        if let Some(bell) = self.hanging().bells.get(name) {
            bell.ring();
        }
    }

    fn hanging(&self) -> MutexGuard<'_, Hanging> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
