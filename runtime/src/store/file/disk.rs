//! One step on one key's files. Everything here blocks, but never on a lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

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

/// The files of one key, each with a suffix: the key `a.lock` does not name the lock of `a`.
pub(super) struct KeyFiles {
    folder: PathBuf,
    name: String,
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
        let name = name::encode(key);
        Self {
            folder: folder.to_owned(),
            state: folder.join(format!("{name}.state")),
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
        // Not the state file: it is replaced, and a lock on a replaced file excludes nobody.
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock);
        let lock = lock.map_err(|error| Failure::io("open", &self.lock, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Busy(transition)),
            Err(TryLockError::Error(error)) => return Err(Failure::io("lock", &self.lock, &error)),
        }
        let stamped = self.apply(transition);
        // Closing would do it too, but not while a process that was forked meanwhile shares the open file.
        let _ = lock.unlock();
        stamped.map(Attempt::Done)
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
        let json = state.to_json();
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
