//! Writing files that others read at the same time, cleaning up after killed processes, and what can go wrong. Everything
//! here blocks.

use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use uuid::fmt::Simple;

use crate::store::StoreErrorKind::{self, Full, Refused, Unreachable, Unreadable};
use crate::util::lock;

/// Files looked at for each write: more than a key has, so that the sweep is faster than the growth.
const AT_A_TIME: usize = 8;
/// No step takes this long between creating its temporary file and renaming it. A process that was stopped for so long
/// loses its write and gets an error.
const ABANDONED: Duration = Duration::from_secs(60);
/// Bounds the clean-up at start, so that a huge folder does not delay it.
const MOST_LOOKED_AT: usize = 100_000;

/// What went wrong, before the store adds the step and its location.
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
            "{} {why}; if it is damaged, move it away to start this job afresh (its last tick may then run \
             again)",
            path.display()
        );
        Self { kind: Unreadable, cause }
    }
}

/// Replaces a file as a whole: a reader, and a process that starts after a crash, finds the old text or the new one. What
/// must survive a power cut is flushed by [`File::sync_all`].
pub(super) fn replace(path: &Path, text: &str, flush: fn(&File) -> io::Result<()>) -> Result<(), FileError> {
    let temporary = temporary(path);
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        // Before the rename: a file system may else keep the new name, and lose the text.
        flush(&file)?;
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        FileError::io("write", path, &error)
    })
}

/// Removes a file. One that is gone already is no error.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(FileError::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// For a file that was not found: a folder that is gone must not pass for a store that knows nothing.
pub(super) fn check_folder(folder: &Path) -> Result<(), FileError> {
    fs::metadata(folder).map(drop).map_err(|error| FileError::io("open", folder, &error))
}

/// A new name beside a file.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", Uuid::new_v4().simple()))
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

/// Only names that [`temporary`] makes: the folder may hold other people's files.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".tmp"));
    let id = name.and_then(|name| name.rsplit('.').next());
    id.is_some_and(|id| id.len() == Simple::LENGTH && Uuid::try_parse(id).is_ok())
}

/// Makes renames and removals in a folder last. Windows has no such call, and journals them.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Goes round a folder, again and again, a few files at a time: each write pays for a look at a few others.
#[derive(Default)]
pub(super) struct FolderSweep(Mutex<Option<ReadDir>>);

impl FolderSweep {
    pub(super) fn next_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut round = lock(&self.0);
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
