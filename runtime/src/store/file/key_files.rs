//! The files of one key: its record, and the lock under which the record is replaced. Everything here blocks, but never
//! on a lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::disk::{self, Failure, Flush};
use super::name;
use crate::Timestamp;
use crate::store::{Look, Record, Swap, SwapReply, to_ascii_json};

const RECORD: &str = ".state";
const LOCK: &str = ".lock";

/// The files of one key, each with a suffix: the key `a.lock` does not name the lock of `a`.
pub(super) struct KeyFiles {
    folder: PathBuf,
    name: String,
    pub(super) record: PathBuf,
    pub(super) lock: PathBuf,
}

/// A record, and the key that its file names. Long keys share a file if their hashes are equal.
struct Found {
    key: String,
    record: Record,
}

impl KeyFiles {
    pub(super) fn new(folder: &Path, key: &str) -> Self {
        Self::named(folder, name::encode(key))
    }

    fn named(folder: &Path, name: String) -> Self {
        let file = |suffix: &str| folder.join(format!("{name}{suffix}"));
        Self { folder: folder.to_owned(), record: file(RECORD), lock: file(LOCK), name }
    }

    /// The files of the key that has this record file, by the name of that file.
    pub(super) fn of_record_file(folder: &Path, file: &str) -> Option<Self> {
        file.strip_suffix(RECORD).map(|name| Self::named(folder, name.to_owned()))
    }

    /// The same by the name of either file.
    pub(super) fn of_file(folder: &Path, file: &str) -> Option<Self> {
        let of_lock_file = || file.strip_suffix(LOCK).map(|name| Self::named(folder, name.to_owned()));
        Self::of_record_file(folder, file).or_else(of_lock_file)
    }

    /// The key's name in the folder, without a suffix.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Shows the key. Needs no lock: the file is replaced, never changed.
    ///
    /// A look may see a rename that is not flushed yet, and that a power cut would undo. Nothing starts because of what a
    /// look shows: that takes a swap, which flushes.
    pub(super) fn look(&self, key: &str) -> Result<Look, Failure> {
        let record = self.first_line()?.map(|found| self.record_of(key, found)).transpose()?;
        Ok(Record::look(record.as_ref(), Timestamp::now()))
    }

    /// Shows the key that the record file names; `None` if there is none, or another key with the same name.
    pub(super) fn look_at_found(&self) -> Result<Option<(String, Look)>, Failure> {
        let found = self.first_line()?.filter(|found| name::encode(&found.key) == self.name);
        Ok(found.map(|Found { key, record }| (key, Record::look(Some(&record), Timestamp::now()))))
    }

    /// The whole record, with its run and skip records.
    pub(super) fn read(&self, key: &str) -> Result<Option<Record>, Failure> {
        self.whole()?.map(|found| self.record_of(key, found)).transpose()
    }

    /// Swaps the record under the key's lock; `None` if another process has the lock, and nothing was done.
    ///
    /// A refused swap flushes nothing, even if the write that it met was not flushed: its caller decides anew, and relies
    /// only on a swap that was applied.
    pub(super) fn swap(&self, key: &str, swap: &Swap) -> Result<Option<SwapReply>, Failure> {
        let Some(_lock) = self.try_lock()? else { return Ok(None) };
        let mut record = self.read(key)?;
        // The clock after the lock: the wait for it counts.
        let reply = Record::swap(&mut record, Timestamp::now(), swap);
        if let SwapReply::Swapped(_) = reply {
            self.write(key, record.as_ref())?;
        }
        Ok(Some(reply))
    }

    /// Removes the files of a key of which nothing is known any more, unless another process has the lock.
    ///
    /// Flushes nothing: a record that comes back after a power cut is still expired.
    pub(super) fn remove_if_expired(&self) -> Result<(), Failure> {
        let Some(_lock) = self.try_lock()? else { return Ok(()) };
        if self.is_expired(Timestamp::now())? {
            disk::remove(&self.record)?;
            // A process that has opened the lock file by now finds, once it has the lock, that the file is gone.
            if cfg!(unix) {
                disk::remove(&self.lock)?;
            }
        }
        Ok(())
    }

    /// Whether there is no record, or an expired one.
    pub(super) fn is_expired(&self, now: Timestamp) -> Result<bool, Failure> {
        Ok(self.first_line()?.is_none_or(|found| found.record.is_expired(now)))
    }

    /// Whenever the process is killed or the power fails: the old record is there, or the new one.
    fn write(&self, key: &str, record: Option<&Record>) -> Result<(), Failure> {
        match record {
            Some(record) => disk::replace(&self.record, &to_text(key, record), Flush::Yes)?,
            // The lock file stays: other processes may have it open. It is swept later.
            None => disk::remove(&self.record)?,
        }
        disk::sync_folder(&self.folder).map_err(|error| Failure::io("flush", &self.folder, &error))
    }

    /// `None` if another process has the lock.
    fn try_lock(&self) -> Result<Option<KeyLock>, Failure> {
        // Not the record file: it is replaced, and a lock on a replaced file excludes nobody.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock);
        let file = file.map_err(|error| Failure::io("open", &self.lock, &error))?;
        match file.try_lock() {
            Ok(()) => {
                let lock = KeyLock(file);
                // Else it was swept between our opening and our locking it.
                Ok(lock.is_at(&self.lock).then_some(lock))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Failure::io("lock", &self.lock, &error)),
        }
    }

    /// What a look needs of the record file; `None` if there is no such file.
    fn first_line(&self) -> Result<Option<Found>, Failure> {
        self.found(|file, text| BufReader::new(file).read_line(text), Record::from_first_line)
    }

    fn whole(&self) -> Result<Option<Found>, Failure> {
        self.found(|mut file, text| file.read_to_string(text), Record::from_text)
    }

    fn found<E: std::fmt::Display>(
        &self,
        read: impl FnOnce(File, &mut String) -> std::io::Result<usize>,
        parse: impl FnOnce(&str) -> Result<Record, E>,
    ) -> Result<Option<Found>, Failure> {
        let unreadable = |why: &str| Failure::unreadable(&self.record, why);
        let mut text = String::new();
        match File::open(&self.record).and_then(|file| read(file, &mut text)) {
            Ok(0) => return Err(unreadable("is empty")),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return disk::check_folder(&self.folder).map(|()| None);
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(unreadable("is not text")),
            Err(error) => return Err(Failure::io("read", &self.record, &error)),
        }
        let record = parse(&text).map_err(|why| unreadable(&why.to_string()))?;
        let key = named_key(&text).ok_or_else(|| unreadable("does not name its key"))?;
        Ok(Some(Found { key, record }))
    }

    fn record_of(&self, key: &str, found: Found) -> Result<Record, Failure> {
        if found.key == key {
            return Ok(found.record);
        }
        Err(Failure::unreadable(&self.record, &format!("is the record of another key, {:?}", found.key)))
    }
}

/// The record's text, with the key in front of what its first line says.
fn to_text(key: &str, record: &Record) -> String {
    let text = record.to_text();
    let rest = text.strip_prefix('{').expect("a record's first line is a JSON object");
    format!("{{\"key\":{},{rest}", to_ascii_json(&key))
}

fn named_key(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        key: String,
    }
    let named: Named = serde_json::from_str(text.lines().next()?).ok()?;
    Some(named.key)
}

/// The lock of a key while it is held.
struct KeyLock(File);

impl KeyLock {
    /// Whether the file that was opened is still the one at this path. Where that is unknown, no lock file is removed.
    fn is_at(&self, path: &Path) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let id = |found: fs::Metadata| (found.dev(), found.ino());
            let opened = self.0.metadata().map(id).ok();
            opened.is_some() && opened == fs::metadata(path).map(id).ok()
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            true
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // Closing unlocks too, but not while a process that was forked meanwhile shares the open file.
        let _ = self.0.unlock();
    }
}
