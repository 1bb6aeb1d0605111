use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::key_files::KeyFiles;
use super::*;
use crate::store::{Change, FenceChange, KeyState, Look, Version};

const MINUTE: Duration = Duration::from_secs(60);

/// A store in a folder of its own, which vanishes with the test.
struct TestStore(FileStore);

impl TestStore {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("jobs-{}", Uuid::new_v4().simple()));
        Self(FileStore::open(folder, None).unwrap().with_lock_timeout(Duration::from_millis(100)))
    }

    async fn swap(&self, key: &str, expected: Option<Version>, change: Change) -> SwapReply {
        self.0.swap(key, &swap(expected, change)).await.unwrap()
    }

    /// Puts a record where none was.
    async fn create(&self, key: &str, expires: Option<Timestamp>) -> Version {
        let state = KeyState { released: true, expires, ..KeyState::default() };
        let change = Change { state: Some(state.into()), fence: FenceChange::Next, ..Change::default() };
        let SwapReply::Swapped(swapped) = self.swap(key, None, change).await else { panic!("not swapped") };
        swapped.version
    }

    async fn kinds_of_errors(&self, key: &str) -> [StoreErrorKind; 3] {
        let look = self.0.look(key).await.unwrap_err();
        let swap = self.0.swap(key, &swap(None, Change::default())).await.unwrap_err();
        [look, swap, self.0.records(&[key.to_owned()], 1).await.unwrap_err()].map(|error| error.kind())
    }

    fn files(&self) -> Vec<String> {
        names_in(&self.0.folder.path)
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0.folder.path);
    }
}

fn swap(expected: Option<Version>, change: Change) -> Swap {
    Swap { expected, expected_lock: None, nonce: 7, change }
}

fn note(name: &str) -> Note {
    Note { name: name.to_owned(), text: "here".into() }
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn refused_swap_writes_nothing() {
    let store = TestStore::new();
    store.create("import", None).await;
    let (file, files) = (store.0.state_file("import"), store.files());
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(matches!(store.swap("import", None, Change::default()).await, SwapReply::Changed(_)));
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
    assert_eq!(store.files(), files);
}

#[tokio::test]
async fn deleted_record_leaves_no_file_but_its_lock() {
    let store = TestStore::new();
    let version = store.create("import", None).await;
    assert!(matches!(store.swap("import", Some(version), Change::default()).await, SwapReply::Swapped(_)));
    assert_eq!(store.files(), ["import.lock"]);
    let look = store.0.look("import").await.unwrap();
    assert_eq!(look, Look::nothing(look.now));
}

#[tokio::test]
async fn unreadable_record_is_an_error_and_left_alone() {
    let store = TestStore::new();
    store.create("import", None).await;
    let file = store.0.state_file("import");
    let good = fs::read(&file).unwrap();
    let first_format = br#"{"key":"import","format":1,"fence":7}"#.as_slice();
    for bad in [b"".as_slice(), &good[..good.len() / 2], b"{}", &[0; 4096], &[0xff; 10], first_format] {
        fs::write(&file, bad).unwrap();
        assert_eq!(store.kinds_of_errors("import").await, [StoreErrorKind::Unreadable; 3]);
        assert_eq!(fs::read(&file).unwrap(), bad);
        assert_eq!(store.0.list(None).await.unwrap(), Page::default());
    }
    let error = store.0.look("import").await.unwrap_err().to_string();
    assert!(error.contains("has format 1, and this version reads format 3"), "{error}");
}

#[tokio::test]
async fn record_of_another_key_is_an_error() {
    let store = TestStore::new();
    store.create("import", None).await;
    fs::copy(store.0.state_file("import"), store.0.state_file("export")).unwrap();
    assert_eq!(store.kinds_of_errors("export").await, [StoreErrorKind::Unreadable; 3]);
    assert_eq!(store.0.list(None).await.unwrap().keys.len(), 1);

    // As if their hashes were equal.
    let mut files = KeyFiles::new(&store.0.folder.path, "import");
    files.key = Some("export".to_owned());
    let failure = files.whole().unwrap_err();
    assert_eq!(failure.kind, StoreErrorKind::Unreadable);
    assert!(failure.cause.contains("is the record of another key, \"import\""), "{}", failure.cause);
}

#[tokio::test]
async fn lock_of_another_process_delays_swaps_and_no_looks() {
    let store = TestStore::new();
    let version = store.create("import", None).await;
    let lock = File::open(store.0.state_file("import").with_extension("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(store.0.look("import").await.unwrap().version, Some(version));
    let error = store.0.swap("import", &swap(None, Change::default())).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    assert!(error.to_string().contains("import.lock"), "{error}");
    lock.unlock().unwrap();
    assert!(matches!(store.swap("import", None, Change::default()).await, SwapReply::Changed(_)));
}

#[tokio::test]
async fn folder_that_is_gone_is_an_error_and_stays_gone() {
    let store = TestStore::new();
    store.0.put_note(Topic::Servers, &note("a"), MINUTE).await.unwrap();
    fs::remove_dir_all(&store.0.folder.path).unwrap();
    assert_eq!(store.kinds_of_errors("import").await, [StoreErrorKind::Unreachable; 3]);
    for error in [
        store.0.list(None).await.err(),
        store.0.notes(Topic::Servers).await.err(),
        store.0.put_note(Topic::Servers, &note("a"), MINUTE).await.err(),
    ] {
        assert_eq!(error.expect("the folder is gone").kind(), StoreErrorKind::Unreachable);
    }
    assert!(!store.0.folder.path.exists());
}

#[tokio::test]
async fn new_keys_sweep_expired_records_and_locks_without_a_record() {
    let store = TestStore::new();
    let kept = store.create("kept", None).await;
    let later = Timestamp::now() + MINUTE;
    store.create("held", Some(later)).await;
    for number in 0..60 {
        store.create(&format!("expired-{number}"), Some(Timestamp::now())).await;
        let deleted = format!("deleted-{number}");
        let version = store.create(&deleted, Some(later)).await;
        store.swap(&deleted, Some(version), Change::default()).await;
        assert!(store.files().len() < 30, "{:?}", store.files());
    }
    assert_eq!(store.0.look("kept").await.unwrap().version, Some(kept));
    assert!(store.0.look("held").await.unwrap().version.is_some());
}

#[tokio::test]
async fn heartbeats_sweep_the_notes_of_killed_servers() {
    let store = TestStore::new();
    let (servers, foreign) = (store.0.folder.path.join("servers"), ["empty.json", "notes.txt"]);
    for number in 0..50 {
        store.0.put_note(Topic::Servers, &note(&format!("killed-{number}")), MINUTE).await.unwrap();
        let file = servers.join(format!("killed-{number}.json"));
        fs::write(file, r#"{"name":"killed","text":"","until":1}"#).unwrap();
    }
    for name in foreign {
        fs::write(servers.join(name), "").unwrap();
    }
    for _ in 0..20 {
        store.0.put_note(Topic::Servers, &note("alive"), MINUTE).await.unwrap();
    }
    assert_eq!(names_in(&servers), ["alive.json", "empty.json", "notes.txt"]);
    assert_eq!(store.0.notes(Topic::Servers).await.unwrap().notes, [note("alive")]);
    store.0.put_note(Topic::Servers, &note("alive"), Duration::ZERO).await.unwrap();
    assert_eq!(names_in(&servers), foreign);
}

#[tokio::test]
async fn list_has_pages_that_hold_every_key_once() {
    let store = TestStore::new();
    store.create("Grüße/7", None).await;
    let record = fs::read_to_string(store.0.state_file("Grüße/7")).unwrap();
    let key = |number: usize| format!("job-{number}");
    for number in 0..1_500 {
        let named =
            record.replacen(r#""key":"Gr\u00fc\u00dfe/7""#, &format!("\"key\":\"{}\"", key(number)), 1);
        fs::write(store.0.state_file(&key(number)), named).unwrap();
    }
    let first = store.0.list(None).await.unwrap();
    let second = store.0.list(first.next.as_deref()).await.unwrap();
    assert_eq!((first.keys.len(), second.keys.len(), second.next), (1_000, 501, None));
    let mut listed: Vec<_> = first.keys.into_iter().chain(second.keys).map(|(key, _)| key).collect();
    listed.sort();
    let mut expected: Vec<_> = (0..1_500).map(key).chain(["Grüße/7".to_owned()]).collect();
    expected.sort();
    assert_eq!(listed, expected);
}
