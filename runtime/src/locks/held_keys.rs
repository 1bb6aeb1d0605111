//! The keys of the manual locks that this server holds.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::server::Server;
use crate::util::lock;

/// A list with one entry for each lock.
#[derive(Default)]
pub(crate) struct HeldKeys(Mutex<Vec<String>>);

impl HeldKeys {
    pub(crate) fn keys(&self) -> Vec<String> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<String>> {
        lock(&self.0)
    }
}

/// An entry in the list, until it is dropped.
pub(super) struct HeldKey {
    server: Arc<Server>,
    key: String,
}

impl HeldKey {
    pub(super) fn add(server: &Arc<Server>, key: &str) -> Self {
        server.held.list().push(key.to_owned());
        Self { server: server.clone(), key: key.to_owned() }
    }
}

impl Drop for HeldKey {
    fn drop(&mut self) {
        let mut held = self.server.held.list();
        if let Some(position) = held.iter().position(|key| *key == self.key) {
            held.swap_remove(position);
        }
    }
}
