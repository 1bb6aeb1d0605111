//! Writing files that others read at the same time, and what can go wrong. Everything here blocks.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::store::StoreErrorKind;

/// What went wrong, before the store adds the step and its location.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: StoreErrorKind,
    pub(super) cause: String,
}

impl Failure {
    pub(super) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreErrorKind::Full
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::Unsupported => {
                StoreErrorKind::Refused
            }
            _ => StoreErrorKind::Unreachable,
        };
        Self { kind, cause: format!("cannot {verb} {}: {error}", path.display()) }
    }

    pub(super) fn unreadable(path: &Path, why: &str) -> Self {
        let cause = format!(
            "{} {why}; if it is damaged, move it away to start this job afresh (its last tick may then run \
             again)",
            path.display()
        );
        Self { kind: StoreErrorKind::Unreadable, cause }
    }
}

/// Whether a write must survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    Yes,
    No,
}

/// Replaces a file as a whole: a reader, and a process that starts after a crash, finds the old text or the new one.
pub(super) fn replace(path: &Path, text: &str, flush: Flush) -> Result<(), Failure> {
    let temporary = temporary(path);
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if flush == Flush::Yes {
            // Before the rename: a file system may else keep the new name, and lose the text.
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Failure::io("write", path, &error)
    })
}

/// Removes a file. One that is gone already is no error.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// For a file that was not found: a folder that is gone must not pass for a store that knows nothing.
pub(super) fn check_folder(folder: &Path) -> Result<(), Failure> {
    fs::metadata(folder).map(drop).map_err(|error| Failure::io("open", folder, &error))
}

/// A new name beside a file.
pub(super) fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", Uuid::new_v4().simple()))
}

/// Makes renames and removals in a folder last. Windows has no such call, and journals them.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
