//! Who is there, and which runs were asked for: a small file for each, which counts until it expires.
//!
//! Nothing here is locked or flushed: what a power cut takes away is said again with the next announcement.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::disk::{Failure, temporary};
use super::name;
use crate::Timestamp;
use crate::store::RequestHint;

const SERVERS: &str = "servers";
const REQUESTS: &str = "requests";
const SUFFIX: &str = "json";

/// Bounds the clean-up, so that what a thousand dead servers left does not delay a living one.
const MOST_REMOVED: usize = 100;

/// The notes of one kind, each replaced as a whole.
pub(super) struct Notes {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Note {
    until: Timestamp,
    about: String,
}

/// Each is a server's announcement.
pub(super) fn servers(store: &Path) -> Notes {
    Notes { folder: store.join(SERVERS) }
}

/// Each is a hint that a run was requested.
pub(super) fn requests(store: &Path) -> Notes {
    Notes { folder: store.join(REQUESTS) }
}

pub(super) fn hint(store: &Path, until: Timestamp, hint: &RequestHint) -> Result<(), Failure> {
    let about = serde_json::to_string(hint).expect("a hint is plain data");
    requests(store).put(&hint.key, until, &about)
}

impl Notes {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `about` is JSON.
    pub(super) fn put(&self, of: &str, until: Timestamp, about: &str) -> Result<(), Failure> {
        // Not its parents: a store whose folder has gone must not come back empty.
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Failure::io("create the folder", &self.folder, &error));
            }
            _ => {}
        }
        let note = Note { until, about: about.to_owned() };
        let bytes = serde_json::to_vec(&note).expect("a note is plain data");
        let (path, temporary) = (self.path(of), temporary(&self.folder, &name::encode(of)));
        let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            Failure::io("write", &path, &error)
        })
    }

    pub(super) fn remove(&self, of: &str) -> Result<(), Failure> {
        let path = self.path(of);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::io("remove", &path, &error)),
            _ => Ok(()),
        }
    }

    /// What the notes that still count are about, in the order of their files' names.
    ///
    /// What cannot be read, as from a newer version, does not hide the others.
    pub(super) fn living<T: DeserializeOwned>(&self, now: Timestamp) -> Result<Vec<T>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::io("open", &self.folder, &error)),
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|s| s == SUFFIX)).collect();
        paths.sort();
        let (living, expired): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .filter_map(|path| Some((read(&path)?, path)))
            .partition(|(note, _)| note.until > now);
        for (_, path) in expired.iter().take(MOST_REMOVED) {
            self.remove_expired(path, now);
        }
        Ok(living.iter().filter_map(|(note, _)| serde_json::from_str(&note.about).ok()).collect())
    }

    /// Whatever fails here is left for the next look.
    fn remove_expired(&self, path: &Path, now: Timestamp) {
        let aside = temporary(&self.folder, "expired");
        if fs::rename(path, &aside).is_err() {
            return;
        }
        // Somebody may have renewed it since it was read.
        let _ = match read(&aside) {
            Some(note) if note.until > now => fs::rename(&aside, path),
            _ => fs::remove_file(&aside),
        };
    }

    fn path(&self, of: &str) -> PathBuf {
        self.folder.join(format!("{}.{SUFFIX}", name::encode(of)))
    }
}

fn read(path: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
