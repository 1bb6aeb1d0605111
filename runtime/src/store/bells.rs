//! Whom to tell of what is heard over a connection that listens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bell, Listener};

/// The bells of those who listen, by what they listen for; none any longer once the connection has ended.
pub(super) struct Bells(Mutex<Option<Hanging>>);

#[derive(Default)]
struct Hanging {
    bells: HashMap<String, Vec<Bell>>,
    /// When there are so many, those that nobody hears are removed.
    room: usize,
}

impl Default for Bells {
    fn default() -> Self {
        Self(Mutex::new(Some(Hanging::default())))
    }
}

impl Bells {
    /// Hangs up a bell, and says which names nobody listens for any more.
    pub(super) fn hang(&self, name: String) -> Option<(Listener, Vec<String>)> {
        let mut hanging = self.hanging();
        let hanging = hanging.as_mut()?;
        let mut unheard = Vec::new();
        if hanging.bells.len() >= hanging.room {
            hanging.bells.retain(|other, bells| {
                bells.retain(|bell| !bell.is_unheard());
                if bells.is_empty() && *other != name {
                    unheard.push(other.clone());
                }
                !bells.is_empty()
            });
            hanging.room = 64.max(2 * hanging.bells.len());
        }
        let (bell, listener) = Listener::new();
        let bells = hanging.bells.entry(name).or_default();
        bells.retain(|bell| !bell.is_unheard());
        bells.push(bell);
        Some((listener, unheard))
    }

    /// Whether the connection has ended.
    #[cfg(feature = "redis")]
    pub(super) fn are_down(&self) -> bool {
        self.hanging().is_none()
    }

    fn ring(&self, name: &str) {
        if let Some(bells) = self.hanging().as_ref().and_then(|hanging| hanging.bells.get(name)) {
            bells.iter().for_each(Bell::ring);
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
mod tests {
    use super::*;

    #[test]
    fn bells_that_nobody_hears_are_taken_down() {
        let bells = Bells::default();
        let kept: Vec<_> = (0..10).map(|key| bells.hang(format!("kept/{key}")).expect("a line").0).collect();
        let mut unheard = 0;
        for key in 0..10_000 {
            unheard += bells.hang(format!("dropped/{}", key % 5_000)).expect("a line").1.len();
        }
        assert!(unheard > 9_000, "{unheard} names");
        let hanging = bells.hanging();
        let hanging = &hanging.as_ref().expect("a line").bells;
        assert!(hanging.len() <= 64, "{} bells", hanging.len());
        assert_eq!(hanging.keys().filter(|key| key.starts_with("kept/")).count(), kept.len());
    }

    #[tokio::test]
    async fn whoever_listens_is_told_of_the_end_of_the_line() {
        let bells = Arc::<Bells>::default();
        let line = Hung(Arc::clone(&bells));
        let mut listener = bells.hang("key".to_owned()).expect("a line").0;
        line.ring("key");
        line.ring("another");
        assert!(listener.freed().await);
        drop(line);
        assert!(!listener.freed().await);
        assert!(bells.hang("key".to_owned()).is_none());
    }
}
