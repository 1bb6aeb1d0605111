//! Whom to tell of what is heard over a connection that listens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bell, Listener};

/// The bells that ring for what is listened for, by name; none any longer once the connection has ended.
pub(super) struct Bells(Mutex<Option<Hanging>>);

#[derive(Default)]
struct Hanging {
    bells: HashMap<String, Bell>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Default for Bells {
    fn default() -> Self {
        Self(Mutex::new(Some(Hanging::default())))
    }
}

impl Bells {
    /// Begins to listen for a name. Returns the names that nobody listens for any more, too.
    pub(super) fn hang(&self, name: String) -> Option<(Listener, Vec<String>)> {
        let mut hanging = self.hanging();
        let Hanging { bells, room } = hanging.as_mut()?;
        let mut unheard = Vec::new();
        if bells.len() >= *room {
            let removed = bells.extract_if(|other, bell| *other != name && bell.is_unheard());
            unheard = removed.map(|(name, _)| name).collect();
            *room = 64.max(2 * bells.len());
        }
        let bell = bells.entry(name).or_insert_with(|| Listener::new().0);
        Some((bell.listener(), unheard))
    }

    /// Whether the connection has ended.
    #[cfg(feature = "redis")]
    pub(super) fn are_down(&self) -> bool {
        self.hanging().is_none()
    }

    fn ring(&self, name: &str) {
        if let Some(bell) = self.hanging().as_ref().and_then(|hanging| hanging.bells.get(name)) {
            bell.ring();
        }
    }

    fn hanging(&self) -> MutexGuard<'_, Option<Hanging>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the bells down at the connection's end: then those who listen know that they hear nothing any more.
pub(super) struct Hung(pub(super) Arc<Bells>);

impl Hung {
    pub(super) fn ring(&self, name: &str) {
        self.0.ring(name);
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        *self.0.hanging() = None;
    }
}

#[cfg(test)]
mod tests;
