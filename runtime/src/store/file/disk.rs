//! One step on one key's files. Everything here blocks, but never on a lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::name;
use crate::Timestamp;
use crate::store::model::State;
use crate::store::{Stamped, StoreErrorKind};

/// What went wrong, before the store adds the step and its location.
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

    fn unreadable(path: &Path, why: &str) -> Self {
        let cause = format!(
            "{} {why}; if it is damaged, move it away to start this job afresh (its last tick may then run \
             again)",
            path.display()
        );
        Self { kind: StoreErrorKind::Unreadable, cause }
    }
}

const STATE: &str = ".state";

/// The files of one key, each with a suffix: the key `a.lock` does not name the lock of `a`.
pub(super) struct KeyFiles {
    folder: PathBuf,
    name: String,
    /// Not known of a file that was found in the folder.
    key: Option<String>,
    pub(super) state: PathBuf,
    pub(super) lock: PathBuf,
}

/// What came of one attempt at a step.
pub(super) enum Attempt<T, F> {
    Done(Stamped<T>),
    /// Somebody else is at it; here is the transition back.
    Busy(F),
}

impl KeyFiles {
    pub(super) fn new(folder: &Path, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::named(folder, name::encode(key)) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files beside a state file that was found in the folder.
    pub(super) fn of_state_file(folder: &Path, file: &str) -> Option<Self> {
        Some(Self::named(folder, file.strip_suffix(STATE)?.to_owned()))
    }

    fn named(folder: &Path, name: String) -> Self {
        Self {
            folder: folder.to_owned(),
            key: None,
            state: folder.join(format!("{name}{STATE}")),
            lock: folder.join(format!("{name}.lock")),
            name,
        }
    }

    /// Applies a transition under the key's lock, if that is free. The transition says with its reply
    /// whether the caller will rely on the state being on disk even if it did not change: an earlier write
    /// of the same step may have failed halfway.
    pub(super) fn attempt<T, F>(&self, transition: F) -> Result<Attempt<T, F>, Failure>
    where
        F: FnOnce(&mut State, Timestamp) -> (T, bool),
    {
        let Some(lock) = self.try_lock()? else { return Ok(Attempt::Busy(transition)) };
        let stamped = self.apply(transition);
        // Closing would do it too, but not while a process that was forked meanwhile shares the open file.
        let _ = lock.unlock();
        stamped.map(Attempt::Done)
    }

    /// `None` if somebody else has it.
    fn try_lock(&self) -> Result<Option<File>, Failure> {
        // Not the state file: it is replaced, and a lock on a replaced file excludes nobody.
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock);
        let lock = lock.map_err(|error| Failure::io("open", &self.lock, &error))?;
        match lock.try_lock() {
            Ok(()) if is_at(&lock, &self.lock) => Ok(Some(lock)),
            // It was swept away between our opening and our locking it.
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Failure::io("lock", &self.lock, &error)),
        }
    }

    /// Removes the files of a key of which nothing needs to be known, unless somebody is at it.
    pub(super) fn remove_if(&self, is_gone: impl FnOnce(&State, Timestamp) -> bool) -> Result<(), Failure> {
        let Some(lock) = self.try_lock()? else { return Ok(()) };
        if is_gone(&self.read()?, Timestamp::now()) {
            self.remove()?;
            // Whoever has opened it by now finds, once it has the lock, that it is the lock no more.
            if cfg!(unix) {
                let _next_time = fs::remove_file(&self.lock);
            }
        }
        let _ = lock.unlock();
        Ok(())
    }

    /// The key that a state file says it is of.
    pub(super) fn key_on_file(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            key: String,
        }
        serde_json::from_slice::<Named>(&fs::read(&self.state).ok()?).ok().map(|named| named.key)
    }

    fn apply<T>(
        &self,
        transition: impl FnOnce(&mut State, Timestamp) -> (T, bool),
    ) -> Result<Stamped<T>, Failure> {
        let at = Timestamp::now();
        let mut state = self.read()?;
        let before = state.clone();
        let (reply, relied_on) = transition(&mut state, at);
        if relied_on || state != before {
            self.keep(&state)?;
        }
        Ok(Stamped { at, reply })
    }

    /// The state as the last step left it. Needs no lock: the file is replaced, never changed.
    pub(super) fn read(&self) -> Result<State, Failure> {
        let bytes = match fs::read(&self.state) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(Failure::io("read", &self.state, &error)),
        };
        let unreadable = |why: &str| Failure::unreadable(&self.state, why);
        if bytes.is_empty() {
            return Err(unreadable("is empty"));
        }
        State::from_json(bytes).map_err(|why| unreadable(&why.to_string()))
    }

    /// Whenever the process is killed or the power fails: the old state is there, or the new one.
    fn keep(&self, state: &State) -> Result<(), Failure> {
        if *state == State::default() {
            self.remove()?;
        } else {
            self.replace(state)?;
        }
        sync_folder(&self.folder).map_err(|error| Failure::io("flush", &self.folder, &error))
    }

    fn replace(&self, state: &State) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Kept<'a> {
            key: &'a Option<String>,
            #[serde(flatten)]
            state: &'a State,
        }
        let json = serde_json::to_string(&Kept { key: &self.key, state }).expect("a state is plain data");
        let temporary = temporary(&self.folder, &self.name);
        let written =
            write_through(&temporary, json.as_bytes()).and_then(|()| fs::rename(&temporary, &self.state));
        written.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            Failure::io("write", &self.state, &error)
        })
    }

    /// No file says the same as a state without content. The lock file stays: others may have it open.
    fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.state) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::io("remove", &self.state, &error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the file that was opened is still the one at this path. Where it cannot be told, no lock is ever removed.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        file.metadata().map(id).ok().is_some_and(|opened| fs::metadata(path).map(id).ok() == Some(opened))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

pub(super) fn temporary(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.{}.tmp", Uuid::new_v4().simple()))
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes renames in a folder last. Windows has no such call, and journals them.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
