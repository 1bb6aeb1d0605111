//! The files of one key: its record, and the lock under which the record is replaced. Everything here blocks, but never
//! on the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::disk::{self, FileError};
use super::name;
use crate::Timestamp;
use crate::store::{Record, Swap, SwapReply, UnreadableRecord, to_ascii_json};

/// Suffixes of the files. No key has a name with one of them.
pub(super) const RECORD: &str = ".state";
pub(super) const LOCK: &str = ".lock";

pub(super) struct KeyFiles {
    folder: PathBuf,
    /// `None` if the files were found by their name; such a key is never swapped.
    pub(super) key: Option<String>,
    /// The name of the files, without a suffix.
    name: String,
    pub(super) record: PathBuf,
    pub(super) lock: PathBuf,
}

impl KeyFiles {
    pub(super) fn new(folder: &Path, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::named(folder, &name::encode(key)) }
    }

    /// Returns the files of this name, whose key is in the record.
    pub(super) fn named(folder: &Path, name: &str) -> Self {
        let [record, lock] = [RECORD, LOCK].map(|suffix| folder.join(format!("{name}{suffix}")));
        Self { folder: folder.to_owned(), key: None, name: name.to_owned(), record, lock }
    }

    /// Reads the key, and its record without run and skip records. Needs no lock: the file is replaced, never changed.
    ///
    /// The record may be in a rename that is not flushed yet, and that a power cut would undo. That is harmless: a run starts
    /// only after a swap, which flushes.
    pub(super) fn first_line(&self) -> Result<Option<(String, Record)>, FileError> {
        self.read(|first_line, _| Record::from_first_line(first_line))
    }

    /// Reads the whole record.
    pub(super) fn whole(&self) -> Result<Option<Record>, FileError> {
        Ok(self.read(|_, text| Record::from_text(text))?.map(|(_, record)| record))
    }

    /// Swaps the record under the key's lock. Returns `None`, and does nothing, if another process has the lock.
    ///
    /// A refused swap flushes nothing, even if the record that it read was not flushed: its caller decides anew, and relies
    /// only on a swap that was applied.
    pub(super) fn swap(&self, swap: &Swap) -> Result<Option<SwapReply>, FileError> {
        let Some(_lock) = self.try_lock()? else { return Ok(None) };
        let mut record = self.whole()?;
        // The clock is read under the lock.
        let reply = Record::swap(&mut record, None, Timestamp::now(), swap);
        if let SwapReply::Swapped(_) = reply {
            match record {
                Some(record) => disk::replace(&self.record, &self.to_text(&record), File::sync_all)?,
                // The lock file stays, since other processes may have it open. The sweep removes it later.
                None => disk::remove(&self.record)?,
            }
            disk::sync_folder(&self.folder).map_err(|error| FileError::io("flush", &self.folder, &error))?;
        }
        Ok(Some(reply))
    }

    /// Removes both files of a key that has expired, or has no record, unless another process has the lock.
    ///
    /// Flushes nothing: a record that comes back after a power cut is still expired.
    pub(super) fn remove_if_expired(&self) -> Result<(), FileError> {
        let is_expired =
            || Ok(self.first_line()?.is_none_or(|(_, record)| record.is_expired(Timestamp::now())));
        // Most are in use, and need no lock to be checked.
        if is_expired()?
            && let Some(_lock) = self.try_lock()?
            && is_expired()?
        {
            disk::remove(&self.record)?;
            // A process that has opened the lock file before finds, once it has the lock, that the file is gone.
            if cfg!(unix) {
                disk::remove(&self.lock)?;
            }
        }
        Ok(())
    }

    /// Returns `None` if another process has the lock.
    fn try_lock(&self) -> Result<Option<KeyLock>, FileError> {
        // Not the record file: it is replaced, and a lock on a replaced file excludes no process.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock);
        let file = file.map_err(|error| FileError::io("open", &self.lock, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(KeyLock(file)).filter(|lock| lock.is_at(&self.lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(FileError::io("lock", &self.lock, &error)),
        }
    }

    fn read(
        &self,
        parse: impl FnOnce(&str, &str) -> Result<Record, UnreadableRecord>,
    ) -> Result<Option<(String, Record)>, FileError> {
        let unreadable = |why: &str| FileError::unreadable(&self.record, why);
        let text = match fs::read_to_string(&self.record) {
            Ok(text) if text.is_empty() => return Err(unreadable("is empty")),
            Ok(text) => text,
            Err(error) => match error.kind() {
                ErrorKind::NotFound => return disk::check_folder(&self.folder).map(|()| None),
                ErrorKind::InvalidData => return Err(unreadable("is not text")),
                _ => return Err(FileError::io("read", &self.record, &error)),
            },
        };
        let first_line = text.lines().next().unwrap_or_default();
        let record = parse(first_line, &text).map_err(|why| unreadable(&why.to_string()))?;
        let key = serde_json::from_str(first_line).ok().map(|RecordKey { key }| key);
        let key = key.filter(|key| name::encode(key) == self.name);
        let key = key.ok_or_else(|| unreadable("does not name a key of this file name"))?;
        // Long keys with the same hash share their files.
        if self.key.as_ref().is_some_and(|expected| *expected != key) {
            return Err(unreadable(&format!("is the record of another key, {key:?}")));
        }
        Ok(Some((key, record)))
    }

    /// Returns the record's text, with the key at the beginning of its first line.
    fn to_text(&self, record: &Record) -> String {
        let text = record.to_text();
        let rest = text.strip_prefix('{').expect("a record's first line is a JSON object");
        format!("{{\"key\":{},{rest}", to_ascii_json(&self.key))
    }
}

/// The key in a record's first line.
#[derive(Deserialize)]
struct RecordKey {
    key: String,
}

/// The lock of a key while it is held.
struct KeyLock(File);

impl KeyLock {
    /// Whether the file is still at this path, and was not swept before it was locked. On systems that cannot tell, no lock
    /// file is removed.
    #[cfg(unix)]
    fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        self.0.metadata().is_ok_and(|opened| fs::metadata(path).is_ok_and(|found| id(found) == id(opened)))
    }

    #[cfg(not(unix))]
    fn is_at(&self, _path: &Path) -> bool {
        true
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // Closing unlocks too, but not while a process that was forked meanwhile shares the open file.
        let _ = self.0.unlock();
    }
}
