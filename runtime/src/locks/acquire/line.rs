//! The waiters of one process for one key: first come, first served, and only the first of them asks the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Mutex as Turns;
use tokio::time::Instant;

use crate::fleet::Holder;
use crate::store::Subscription;
use crate::util::lock;
use crate::util::watched::Watched;

/// The lines of a server, by key. A key's slots have a line of their own.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<(String, bool), Arc<Line>>>);

/// One line. Whoever is first in it holds the ear, which is passed on with the place.
#[derive(Default)]
pub(crate) struct Line {
    /// Fair: those who wait for it get it in the order in which they came.
    pub(crate) first: Turns<Ear>,
    /// Counts releases on this server.
    pub(crate) freed: Watched,
    holder: Mutex<Option<Holder>>,
}

/// What the first in line hears of the key.
pub(crate) struct Ear {
    pub(crate) listener: Option<Subscription>,
    /// When the store was last asked to notify.
    pub(crate) since: Instant,
    /// A store that cannot tell is not asked twice.
    pub(crate) is_deaf: bool,
}

/// A store notifies for a minute after it was asked to.
const RENEW_AFTER: Duration = Duration::from_secs(30);

impl Default for Ear {
    fn default() -> Self {
        Self { listener: None, since: Instant::now(), is_deaf: false }
    }
}

impl Ear {
    pub(crate) fn wants_to_listen(&self) -> bool {
        !self.is_deaf && (self.listener.is_none() || self.since.elapsed() >= RENEW_AFTER)
    }
}

impl Line {
    /// Who held the key when the first in line last asked.
    pub(crate) fn holder(&self) -> Option<Holder> {
        lock(&self.holder).clone()
    }

    pub(crate) fn set_holder(&self, holder: Option<Holder>) {
        *lock(&self.holder) = holder;
    }
}

impl Lines {
    /// The line for a key, until the place is dropped.
    pub(crate) fn join(&self, key: &str, slots: bool) -> Place<'_> {
        let id = (key.to_owned(), slots);
        let line = lock(&self.0).entry(id.clone()).or_default().clone();
        Place { lines: self, id, line }
    }

    /// The key was released by this server: the first in line need not wait to hear of it.
    pub(crate) fn freed(&self, key: &str, slots: bool) {
        if let Some(line) = lock(&self.0).get(&(key.to_owned(), slots)) {
            line.freed.count_up();
        }
    }
}

/// A place in a line.
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    id: (String, bool),
    pub(crate) line: Arc<Line>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines.0);
        // The map's own, and this one's.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.id);
        }
    }
}
