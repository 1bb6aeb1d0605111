//! Accidents of the memory store.

use std::sync::Arc;

use crate::store::memory::MemoryStore;
use crate::store::{JobRecords, KeyState, Record, SharedLock, Version};
use crate::util::{lock, random};

impl MemoryStore {
    /// Removes everything about a key, as a restart without persistence does.
    pub fn wipe(&self, key: &str) {
        lock(&self.contents).keys.remove(self.full_key(key).as_ref());
    }

    /// Changes the state of a record, as a failover to an older replica does.
    pub fn edit<T>(&self, key: &str, edit: impl FnOnce(&mut KeyState) -> T) -> T {
        let now = self.clock.now();
        let mut contents = lock(&self.contents);
        let entry = contents.keys.entry(self.full_key(key).into_owned()).or_default();
        let version = Version { at: now, nonce: random() };
        let record = entry.record.get_or_insert_with(|| Record {
            version,
            fence: 0,
            state: Arc::default(),
            records: JobRecords::default(),
        });
        record.version = version;
        edit(Arc::make_mut(&mut record.state))
    }

    /// Sets the lock that other programs share, as another program does, or removes it.
    pub fn set_lock(&self, key: &str, shared: Option<SharedLock>) {
        lock(&self.contents).keys.entry(self.full_key(key).into_owned()).or_default().lock = shared;
    }
}
