//! Expired files must not pile up: each write pays for a look at a few others.

use std::fs::{self, ReadDir};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::key_files::{KeyFiles, LOCK, RECORD};

/// Files looked at for each write: more than a key has, so that the sweep is faster than the growth.
const AT_A_TIME: usize = 8;

/// Goes round a folder, again and again, a few files at a time.
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

    /// Removes expired records, and locks without a record. What fails is left for the next round.
    pub(super) fn remove_expired_keys(&self, folder: &Path) {
        for path in self.next_files(folder) {
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let files = [RECORD, LOCK].iter().find_map(|suffix| KeyFiles::of_file(folder, file, suffix));
            // Most are in use, and that takes no lock to see.
            if let Some(files) = files.filter(|files| matches!(files.is_expired(), Ok(true))) {
                let _next_round = files.remove_if_expired();
            }
        }
    }
}
