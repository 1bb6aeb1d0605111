//! The locks by hand that this server holds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::server::Server;

/// Their keys.
#[derive(Default)]
pub(crate) struct HeldHere(Mutex<Vec<String>>);

impl HeldHere {
    pub(crate) fn keys(&self) -> Vec<String> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a lock as held here until it is dropped.
pub(super) struct Counted {
    server: Arc<Server>,
    key: String,
}

impl Counted {
    pub(super) fn new(server: &Arc<Server>, key: &str) -> Self {
        server.held.list().push(key.to_owned());
        Self { server: server.clone(), key: key.to_owned() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut held = self.server.held.list();
        if let Some(position) = held.iter().position(|key| *key == self.key) {
            held.swap_remove(position);
        }
    }
}
