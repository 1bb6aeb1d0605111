//! The requests of the store on its folder. Everything here blocks, but never on a lock.

use std::fs::{self, File};
use std::path::PathBuf;

use super::disk::{FileError, FolderSweep, remove_abandoned, sync_folder, temporary};
use super::key_files::{KeyFiles, LOCK, RECORD};
use super::notes::NoteFolder;
use crate::Timestamp;
use crate::store::{JobRecords, Look, Page, Record, Swap, SwapReply, Topic};

/// Number of keys on a page.
const PAGE: usize = 1_000;

pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The notes, by topic.
    notes: [NoteFolder; Topic::ALL.len()],
    sweep: FolderSweep,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        let notes = Topic::ALL.map(|topic| NoteFolder::new(&path, topic));
        Self { path, notes, sweep: FolderSweep::default() }
    }

    /// Creates the folder if it is missing, and checks that it can be used.
    pub(super) fn prepare(&self) -> Result<(), FileError> {
        let path = &self.path;
        let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(path).map_err(|error| FileError::io("create the folder", path, &error))?;
        for parent in missing.iter().filter_map(|made| made.parent()) {
            // A parent that may not be listed cannot be flushed.
            let _ = sync_folder(parent);
        }
        let probe = temporary(&path.join("probe"));
        let usable = File::create_new(&probe).and_then(|file| {
            let locked = file.try_lock();
            fs::remove_file(&probe)?;
            locked?;
            sync_folder(path)
        });
        usable.map_err(|error| FileError::io("write to and lock files in the folder", path, &error))?;
        remove_abandoned(path);
        self.notes.iter().for_each(|notes| remove_abandoned(&notes.path));
        Ok(())
    }

    pub(super) fn key(&self, key: &str) -> KeyFiles {
        KeyFiles::new(&self.path, key)
    }

    pub(super) fn notes(&self, topic: Topic) -> &NoteFolder {
        &self.notes[topic as usize]
    }

    pub(super) fn look(&self, key: &str) -> Result<Look, FileError> {
        let found = self.key(key).first_line()?;
        Ok(Record::look(found.as_ref().map(|(_, record)| record), None, Timestamp::now()))
    }

    /// Returns `None` if another process has the lock. Each new key also removes some expired ones.
    pub(super) fn swap(&self, key: &str, swap: &Swap) -> Result<Option<SwapReply>, FileError> {
        let reply = self.key(key).swap(swap)?;
        if swap.expected.is_none() && matches!(reply, Some(SwapReply::Swapped(_))) {
            for path in self.sweep.next_files(&self.path) {
                let file = path.file_name().and_then(|file| file.to_str());
                let name = file.and_then(|file| file.strip_suffix(RECORD).or(file.strip_suffix(LOCK)));
                // An error is ignored: a later swap tries again.
                let _ = name.map(|name| KeyFiles::named(&self.path, name).remove_if_expired());
            }
        }
        Ok(reply)
    }

    pub(super) fn records(&self, key: &str) -> Result<JobRecords, FileError> {
        Ok(self.key(key).whole()?.map(|record| record.records).unwrap_or_default())
    }

    /// Lists a page, which begins after the last file name of the previous one.
    pub(super) fn list(&self, page: Option<&str>) -> Result<Page, FileError> {
        let entries = fs::read_dir(&self.path).map_err(|error| FileError::io("open", &self.path, &error))?;
        let files = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let names = files.filter_map(|file| Some(file.strip_suffix(RECORD)?.to_owned()));
        let mut names: Vec<_> = names.filter(|name| page.is_none_or(|last| &**name > last)).collect();
        names.sort_unstable();
        let next = (names.len() > PAGE).then(|| names[PAGE - 1].clone());
        let files = names.iter().take(PAGE).map(|name| KeyFiles::named(&self.path, name));
        // Records that cannot be read are left out.
        let found = files.filter_map(|files| files.first_line().ok()?);
        let looks = found.map(|(key, record)| (key, Record::look(Some(&record), None, Timestamp::now())));
        Ok(Page { keys: looks.collect(), next })
    }
}
