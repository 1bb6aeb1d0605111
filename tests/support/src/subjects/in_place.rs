//! A store that is wrong on purpose: a swap takes the right lock, then overwrites the record in place.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use jobs::Timestamp;
use jobs::store::{
    JobRecords, Look, Note, Notes, Page, Record, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Topic,
};

pub struct InPlaceStore {
    pub folder: PathBuf,
}

impl InPlaceStore {
    pub fn state_file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.state"))
    }

    fn read(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let unreadable =
            |why: String| StoreError::new(StoreErrorKind::Unreadable, "read", self.location(), why);
        match fs::read_to_string(self.state_file(key)) {
            Ok(text) => Record::from_text(&text).map(Some).map_err(|why| unreadable(why.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// A piece at a time, as a program does that serialises straight into a file.
    fn write(&self, key: &str, text: &str) {
        let mut file = File::create(self.state_file(key)).unwrap();
        for piece in text.as_bytes().chunks(4) {
            file.write_all(piece).unwrap();
        }
    }

    /// Everything in one step: a look, too, waits for the lock.
    fn step<T>(&self, key: &str, step: impl FnOnce(&mut Option<Record>) -> T) -> Result<T, StoreError> {
        let lock = File::create(self.folder.join(format!("{key}.lock"))).unwrap();
        lock.lock().unwrap();
        let before = self.read(key)?;
        let mut record = before.clone();
        let reply = step(&mut record);
        match &record {
            _ if record == before => {}
            None => fs::remove_file(self.state_file(key)).unwrap(),
            Some(record) => self.write(key, &record.to_text()),
        }
        Ok(reply)
    }
}

fn ready<'a, T: Send + 'a>(reply: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(reply))
}

impl Store for InPlaceStore {
    fn location(&self) -> String {
        self.folder.display().to_string()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        ready(self.step(key, |record| Record::look(record.as_ref(), None, Timestamp::now())))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        ready(self.step(key, |record| Record::swap(record, None, Timestamp::now(), swap)))
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let records = |record: &mut Option<Record>| record.as_ref().map(|record| record.records.clone());
        let of_key = |key: &String| Ok(self.step(key, records)?.unwrap_or_default().newest(newest));
        ready(keys.iter().map(of_key).collect())
    }

    // Of other keys, and of other servers, it knows nothing.
    fn list<'a>(&'a self, _page: Option<&'a str>) -> StoreFuture<'a, Page> {
        ready(Ok(Page::default()))
    }

    fn put_note<'a>(&'a self, _topic: Topic, _note: &'a Note, _ttl: Duration) -> StoreFuture<'a, Timestamp> {
        ready(Ok(Timestamp::now()))
    }

    fn notes(&self, _topic: Topic) -> StoreFuture<'_, Notes> {
        ready(Ok(Notes { now: Timestamp::now(), notes: Vec::new() }))
    }
}
