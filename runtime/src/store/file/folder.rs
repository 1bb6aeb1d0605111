//! The steps of the store on its folder. Everything here blocks, but never on a lock.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::disk::Failure;
use super::key_files::{KeyFiles, RECORD};
use super::notes::NoteFolder;
use super::sweep::Sweep;
use crate::Timestamp;
use crate::store::{JobRecords, Look, Page, Record, Swap, SwapReply, Topic};

/// Keys on a page of the list.
const PAGE: usize = 1_000;

pub(super) struct Folder {
    pub(super) path: Arc<Path>,
    servers: NoteFolder,
    requests: NoteFolder,
    sweep: Sweep,
}

impl Folder {
    pub(super) fn new(path: Arc<Path>) -> Self {
        let [servers, requests] =
            [Topic::Servers, Topic::Requests].map(|topic| NoteFolder::new(&path, topic));
        Self { path, servers, requests, sweep: Sweep::default() }
    }

    pub(super) fn key(&self, key: &str) -> KeyFiles {
        KeyFiles::new(&self.path, key)
    }

    pub(super) fn notes(&self, topic: Topic) -> &NoteFolder {
        match topic {
            Topic::Servers => &self.servers,
            Topic::Requests => &self.requests,
        }
    }

    pub(super) fn look(&self, key: &str) -> Result<Look, Failure> {
        let record = self.key(key).first_line(key)?;
        Ok(Record::look(record.as_ref(), Timestamp::now()))
    }

    /// `None` if another process has the lock. Each new key pays for the removal of expired ones.
    pub(super) fn swap(&self, key: &str, swap: &Swap) -> Result<Option<SwapReply>, Failure> {
        let reply = self.key(key).swap(key, swap)?;
        if swap.expected.is_none() && matches!(reply, Some(SwapReply::Swapped(_))) {
            self.sweep.remove_expired_keys(&self.path);
        }
        Ok(reply)
    }

    pub(super) fn records(&self, key: &str) -> Result<JobRecords, Failure> {
        Ok(self.key(key).whole(key)?.map(|record| record.records()).unwrap_or_default())
    }

    /// A page begins after the file name that the previous one ended with.
    pub(super) fn list(&self, page: Option<&str>) -> Result<Page, Failure> {
        let entries = fs::read_dir(&self.path).map_err(|error| Failure::io("open", &self.path, &error))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let files = names.filter_map(|name| KeyFiles::of_file(&self.path, &name, RECORD));
        let mut files: Vec<_> = files.filter(|files| page.is_none_or(|last| &*files.name > last)).collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let next = (files.len() > PAGE).then(|| files[PAGE - 1].name.clone());
        // A record that cannot be read does not hide the others.
        let found = files.iter().take(PAGE).filter_map(|files| files.found().ok()?);
        let looks = found.map(|(key, record)| (key, Record::look(Some(&record), Timestamp::now())));
        Ok(Page { keys: looks.collect(), next })
    }
}
