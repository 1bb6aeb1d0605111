//! Accidents of the memory store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::store::memory::{Contents, KeyEntry, MemoryStore};
use crate::store::{FinishMark, JobRecords, KeyState, LeaseId, NotCurrent, Record, SharedLock, Version};
use crate::util::{lock, random};

/// What a memory store contained at one instant.
#[derive(Clone, Default)]
pub struct MemorySnapshot(HashMap<String, KeyEntry>);

impl Contents {
    /// Fences that the store loses are not given again within the same microsecond, on a clock that stands still.
    fn lose_fences(&mut self) {
        let newest =
            self.keys.values().filter_map(|entry| entry.record.as_ref()).map(|record| record.fence).max();
        self.deleted_fence = self.deleted_fence.max(newest.unwrap_or_default());
    }
}

impl MemoryStore {
    /// Removes everything about a key, as a restart without persistence does.
    pub fn wipe(&self, key: &str) {
        let contents = &mut *lock(&self.contents);
        contents.lose_fences();
        contents.keys.remove(self.full_key(key).as_ref());
    }

    /// Removes all keys.
    pub fn wipe_all(&self) {
        self.restore(&MemorySnapshot::default());
    }

    /// Returns what the store contains.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(lock(&self.contents).keys.clone())
    }

    /// Returns to what the store contained earlier, as a failover to a replica that lags behind does.
    pub fn restore(&self, earlier: &MemorySnapshot) {
        let contents = &mut *lock(&self.contents);
        contents.lose_fences();
        contents.keys.clone_from(&earlier.0);
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
            lease: None,
        });
        record.version = version;
        edit(Arc::make_mut(&mut record.state))
    }

    /// Marks the work of a lease as committed, as a transaction of the application does.
    pub(super) fn finish(
        &self,
        key: &str,
        lease: LeaseId<'_>,
        done_for: Option<Duration>,
    ) -> Result<FinishMark, NotCurrent> {
        let now = self.clock.now();
        let mark = FinishMark { at: now, done_until: done_for.map(|done_for| now + done_for) };
        let mut contents = lock(&self.contents);
        let entry = contents.keys.get_mut(self.full_key(key).as_ref()).ok_or(NotCurrent::Superseded)?;
        Record::finish(&mut entry.record, lease, mark).map(|()| mark)
    }

    /// Removes the lock of another program that never expires.
    pub(super) fn remove_foreign_lock(&self, key: &str) {
        let mut contents = lock(&self.contents);
        if let Some(entry) = contents.keys.get_mut(self.full_key(key).as_ref()) {
            entry.lock.take_if(|shared| shared.until.is_none());
        }
    }

    /// Sets the lock that other programs share, as another program does, or removes it.
    pub fn set_lock(&self, key: &str, shared: Option<SharedLock>) {
        lock(&self.contents).keys.entry(self.full_key(key).into_owned()).or_default().lock = shared;
    }
}
