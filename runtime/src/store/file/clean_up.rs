//! What killed processes leave behind must not pile up.

use std::fs::{self, ReadDir};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use uuid::fmt::Simple;

/// Files looked at for each write: more than a key has, so that the sweep is faster than the growth.
const AT_A_TIME: usize = 8;
/// No step takes this long between creating its temporary file and renaming it. A process that was stopped for so long
/// loses its write and gets an error.
const ABANDONED: Duration = Duration::from_secs(60);
/// Bounds the clean-up at start, so that a huge folder does not delay it.
const MOST_LOOKED_AT: usize = 100_000;

/// Goes round a folder, again and again, a few files at a time: each write pays for a look at a few others.
#[derive(Default)]
pub(super) struct Sweep(Mutex<Option<ReadDir>>);

impl Sweep {
    pub(super) fn next_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut round = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if round.is_none() {
            *round = fs::read_dir(folder).ok();
        }
        let files: Vec<_> = round.iter_mut().flatten().take(AT_A_TIME).collect();
        if files.len() < AT_A_TIME {
            *round = None;
        }
        files.into_iter().flatten().map(|entry| entry.path()).collect()
    }
}

/// Removes abandoned temporary files. What fails is left for the next start.
pub(super) fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    for entry in entries.take(MOST_LOOKED_AT).flatten().filter(|entry| is_temporary(&entry.path())) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ABANDONED)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Only names that [`temporary`](super::disk::temporary) makes: the folder may hold other people's files.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".tmp"));
    let id = name.and_then(|name| name.rsplit('.').next());
    id.is_some_and(|id| id.len() == Simple::LENGTH && Uuid::try_parse(id).is_ok())
}
