//! The file store under test, on a file system without a disk where there is one.

use std::sync::Arc;

use jobs::Timestamp;
use jobs::store::file::FileStore;
use jobs::store::model::{Lock, State};

use super::folder::TempFolder;
use super::subject::{Subject, Tamper, Tampering};

fn open(folder: &TempFolder, namespace: Option<&str>) -> FileStore {
    FileStore::open(folder.path(), namespace).expect("a folder that can be written to")
}

/// A folder of its own, which vanishes with the test.
pub fn file() -> std::future::Ready<Subject> {
    let folder = Arc::new(TempFolder::in_memory());
    let store = open(&folder, None);
    let subject = Subject::new(store.clone())
        .tampered_by(FileHand { store, _folder: Arc::clone(&folder) })
        .namespaced_by(move |name| open(&folder, Some(name)));
    std::future::ready(subject)
}

struct FileHand {
    store: FileStore,
    _folder: Arc<TempFolder>,
}

impl FileHand {
    fn read(&self, key: &str) -> State {
        let text = std::fs::read_to_string(self.store.state_file(key));
        text.map_or_else(|_| State::default(), |text| serde_json::from_str(&text).expect("a readable state"))
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut State)) {
        let mut state = self.read(key);
        change(&mut state);
        let mut json = serde_json::json!(state);
        json["key"] = key.into();
        std::fs::write(self.store.state_file(key), json.to_string()).unwrap();
    }
}

impl Tamper for FileHand {
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>> {
        let gone = |lock: &Lock| lock.until.is_some_and(|until| until <= Timestamp::now());
        let lock = self.read(key).lock.filter(|lock| !gone(lock));
        Box::pin(std::future::ready(lock.map(|lock| lock.token.to_string())))
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        let lock = Lock { token: token.into(), until };
        self.change(key, |state| state.lock = Some(lock));
        Box::pin(std::future::ready(()))
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.change(key, |state| state.lock = None);
        Box::pin(std::future::ready(()))
    }

    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.change(key, |state| *state = State::default());
        Box::pin(std::future::ready(()))
    }
}
