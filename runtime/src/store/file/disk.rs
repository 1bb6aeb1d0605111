//! Replaces files that other processes read, removes temporary files of killed processes, and classifies errors.
//! Everything here blocks.

use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use uuid::fmt::Simple;

use crate::store::StoreErrorKind::{self, Full, Refused, Unreachable, Unreadable};
use crate::util::lock;

/// Files checked for each write: more than a key has, so that the sweep is faster than the growth.
const AT_A_TIME: usize = 8;
/// Age at which a temporary file counts as abandoned. A process that was stopped for longer between creating and renaming
/// its file gets an error.
const ABANDONED: Duration = Duration::from_secs(60);
/// Bounds the clean-up at start, so that a huge folder does not delay it.
const MOST_LOOKED_AT: usize = 100_000;

/// The error of one request, before the store adds the method and its location.
#[derive(Debug)]
pub(super) struct FileError {
    pub(super) kind: StoreErrorKind,
    pub(super) cause: String,
}

impl FileError {
    pub(super) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::Unsupported => Refused,
            _ => Unreachable,
        };
        Self { kind, cause: format!("cannot {verb} {}: {error}", path.display()) }
    }

    pub(super) fn unreadable(path: &Path, why: &str) -> Self {
        let cause = format!(
            "{} {why}; if it is damaged, remove it to reset this job (its last tick may then run again)",
            path.display()
        );
        Self { kind: Unreadable, cause }
    }
}

/// Replaces a file as a whole: a reader, and a process that starts after a crash, finds the old text or the new one. A
/// file that must survive a power cut is flushed by [`File::sync_all`].
pub(super) fn replace(path: &Path, text: &str, flush: fn(&File) -> io::Result<()>) -> Result<(), FileError> {
    let temporary = temporary(path);
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        // Before the rename: otherwise a file system may keep the new name, and lose the text.
        flush(&file)?;
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        FileError::io("write", path, &error)
    })
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(FileError::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Checks that the folder of a missing file exists: a folder that is gone must not look like an empty store.
pub(super) fn check_folder(folder: &Path) -> Result<(), FileError> {
    fs::metadata(folder).map(drop).map_err(|error| FileError::io("open", folder, &error))
}

/// Returns a new name in the folder of a file.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", Uuid::new_v4().simple()))
}

/// Removes abandoned temporary files. Ignores errors: the next start tries again.
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

/// Whether [`temporary`] made the name: the folder may contain other files.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".tmp"));
    let id = name.and_then(|name| name.rsplit('.').next());
    id.is_some_and(|id| id.len() == Simple::LENGTH && Uuid::try_parse(id).is_ok())
}

/// Flushes renames and removals in a folder. Windows has no such call, and journals them.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Goes through a folder again and again, a few files for each write.
#[derive(Default)]
pub(super) struct FolderSweep(Mutex<Option<ReadDir>>);

impl FolderSweep {
    pub(super) fn next_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut round = lock(&self.0);
        if round.is_none() {
            // Nothing to sweep if it cannot be read: the write that follows reports why.
            *round = fs::read_dir(folder).ok();
        }
        let files: Vec<_> = round.iter_mut().flatten().take(AT_A_TIME).collect();
        if files.len() < AT_A_TIME {
            *round = None;
        }
        files.into_iter().flatten().map(|entry| entry.path()).collect()
    }
}
