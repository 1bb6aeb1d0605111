//! Notes that expire: a folder for each topic, and in it a small file for each note.
//!
//! Nothing here is locked or flushed: no decision depends on notes, and notes that a power cut removes are repeated.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disk::{self, FileError, FolderSweep};
use super::name;
use crate::Timestamp;
use crate::store::{Note, Notes, Topic};

const SUFFIX: &str = "json";

/// Limits the clean-up of one listing, so that the notes of a thousand killed servers do not delay it.
const MOST_REMOVED: usize = 100;

/// The notes of one topic.
pub(super) struct NoteFolder {
    pub(super) path: PathBuf,
    sweep: FolderSweep,
}

#[derive(Serialize, Deserialize)]
struct NoteFile {
    name: String,
    text: Arc<str>,
    until: Timestamp,
}

impl NoteFolder {
    pub(super) fn new(store: &Path, topic: Topic) -> Self {
        Self { path: store.join(topic.as_str()), sweep: FolderSweep::default() }
    }

    /// Writes a note, or removes it if `ttl` is zero. Also removes a few expired notes.
    pub(super) fn put(&self, note: Note, ttl: Duration) -> Result<Timestamp, FileError> {
        let now = Timestamp::now();
        let path = self.path.join(format!("{}.{SUFFIX}", name::encode(&note.name)));
        if ttl.is_zero() {
            disk::remove(&path)?;
        } else {
            // Without its parents: a store whose folder is gone must not come back empty.
            if let Err(error) = fs::create_dir(&self.path)
                && error.kind() != ErrorKind::AlreadyExists
            {
                return Err(FileError::io("create the folder", &self.path, &error));
            }
            let file = NoteFile { name: note.name, text: note.text, until: now + ttl };
            let json = serde_json::to_string(&file).expect("a note is plain data");
            disk::replace(&path, &json, |_| Ok(()))?;
        }
        self.sweep.next_files(&self.path).iter().for_each(|path| remove_expired(path, now));
        Ok(now)
    }

    /// Returns the notes that have not expired, in the order of their names. Also removes some expired notes.
    ///
    /// Leaves out files that cannot be read, as those of a newer version.
    pub(super) fn list(&self) -> Result<Notes, FileError> {
        let now = Timestamp::now();
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return disk::check_folder(self.path.parent().unwrap_or(&self.path))
                    .map(|()| Notes { now, notes: Vec::new() });
            }
            Err(error) => return Err(FileError::io("open", &self.path, &error)),
        };
        let paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_note(path));
        let files = paths.filter_map(|path| Some((read(&path)?, path)));
        let (living, expired): (Vec<_>, Vec<_>) = files.partition(|(file, _)| file.until > now);
        expired.iter().take(MOST_REMOVED).for_each(|(_, path)| remove_expired(path, now));
        let notes = living.into_iter().map(|(NoteFile { name, text, .. }, _)| Note { name, text });
        let mut notes: Vec<_> = notes.collect();
        notes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Notes { now, notes })
    }
}

/// Removes a note if it has expired. Ignores errors: a later call tries again.
fn remove_expired(path: &Path, now: Timestamp) {
    let is_expired = |path: &Path| read(path).is_some_and(|file| file.until <= now);
    let aside = disk::temporary(path);
    if !is_note(path) || !is_expired(path) || fs::rename(path, &aside).is_err() {
        return;
    }
    // Its server may have renewed it since it was read.
    let _ = if is_expired(&aside) { fs::remove_file(&aside) } else { fs::rename(&aside, path) };
}

fn is_note(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == SUFFIX)
}

fn read(path: &Path) -> Option<NoteFile> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
