//! The file store inside one process: its files, its errors, its manners.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jobs::store::file::FileStore;
use jobs::store::{ClaimDecision, ExtendReply, ReleaseReply, StoreErrorKind};
use jobs::testing::store::Client;
use proptest::prelude::*;
use support::folder::TempFolder;
use support::server::{SUCCEEDED, claim_now, win};

mod fleet;
mod state;

fn file_name(store: &FileStore, key: &str) -> String {
    store.state_file(key).file_name().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_step_of_a_tick_is_visible_to_a_second_process() {
    let folder = TempFolder::new();
    let open = || Client::new(FileStore::open(folder.path(), None).unwrap());
    let (here, there) = (open(), open());
    let claim = claim_now();
    let ClaimDecision::Won(won) = here.claim("import", &claim).await.unwrap().reply.decision else {
        panic!("not won")
    };
    let lease = won.lease.clone();
    assert!(matches!(
        there.claim("import", &claim_now()).await.unwrap().reply.decision,
        ClaimDecision::Held(_)
    ));
    assert_eq!(
        there.claim("import", &claim).await.unwrap().reply.decision,
        ClaimDecision::Won(won.clone()),
        "a repeated claim"
    );
    assert!(matches!(here.extend("import", &lease).await.unwrap().reply, ExtendReply::Kept { .. }));
    assert_eq!(here.release("import", &lease, &SUCCEEDED).await.unwrap().reply, ReleaseReply::Released);
    let history = there.history("import").await.unwrap().reply;
    assert_eq!(history.runs.len(), 1);
    assert_eq!(history.runs[0].fence, won.lease.fence);
    there.ping().await.unwrap();
}

proptest! {
    #[test]
    fn keys_that_differ_only_by_case_have_files_that_differ_by_more(
        key in "[A-Za-z0-9._:/-]{1,128}",
        flips in proptest::collection::vec(any::<bool>(), 128),
    ) {
        let folder = TempFolder::in_memory();
        let store = FileStore::open(folder.path(), None).unwrap();
        let flip = |(c, flip): (char, &bool)| match (flip, c.is_ascii_uppercase()) {
            (false, _) => c,
            (true, true) => c.to_ascii_lowercase(),
            (true, false) => c.to_ascii_uppercase(),
        };
        let other: String = key.chars().zip(&flips).map(flip).collect();
        let (name, other_name) = (file_name(&store, &key), file_name(&store, &other));
        prop_assert_eq!(key == other, name.eq_ignore_ascii_case(&other_name), "{} {}", name, other_name);
        prop_assert!(name.len() <= 106 && !name.starts_with(['.', '-']), "{}", name);
        prop_assert!(name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'%' | b'~')));
    }

    #[test]
    fn no_two_keys_share_a_file(keys in proptest::collection::hash_set("[aA%~.:/-]{1,5}|[aA]{125,128}", 2..50)) {
        let folder = TempFolder::in_memory();
        let store = FileStore::open(folder.path(), None).unwrap();
        let files: HashSet<_> = keys.iter().map(|key| store.state_file(key)).collect();
        prop_assert_eq!(files.len(), keys.len());
        prop_assert!(files.iter().all(|file| file.parent() == Some(folder.path())));
    }
}

#[tokio::test]
async fn keys_and_namespaces_that_look_like_files_of_others_are_not_them() {
    let folder = TempFolder::new();
    let long = "Long/".repeat(25);
    let keys = ["a", "A", "a.lock", "a.state", "..", "a/../b", "a:b", "-x", "con", "a.namespace", &long];
    let namespaces = [None, Some("a"), Some("A"), Some("a.state"), Some(".."), Some("a.namespace")];
    for namespace in namespaces {
        let client = Client::new(FileStore::open(folder.path(), namespace).unwrap());
        for key in keys {
            win(&client, key).await;
        }
    }
    let count = |path: &Path, suffix: &str| {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(suffix)).count()
    };
    assert_eq!(count(folder.path(), ".namespace"), namespaces.len() - 1);
    assert_eq!(count(folder.path(), ".state"), keys.len());
    assert_eq!(count(folder.path(), ".lock"), keys.len());
    assert_eq!(count(folder.path(), ".tmp"), 0);
}

#[tokio::test]
async fn unreadable_state_is_an_error_and_never_counts_as_absent() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    win(&client, "import").await;
    let path = store.state_file("import");
    let good = fs::read(&path).unwrap();
    let newer = String::from_utf8(good.clone()).unwrap().replace("\"format\":3", "\"format\":4");
    let half = &good[..good.len() / 2];
    for bad in [b"".as_slice(), half, b"{\"name\":\"package.json\"}", &[0; 4096], newer.as_bytes()] {
        fs::write(&path, bad).unwrap();
        let errors = [client.claim("import", &claim_now()).await.err(), client.history("import").await.err()];
        for error in errors {
            let error = error.expect("an unreadable state is an error");
            assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), bad, "left as it was found");
    }
}

#[tokio::test]
async fn folder_that_cannot_be_created_or_was_removed_is_named_in_the_error() {
    let folder = TempFolder::new();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for bad in [file.clone(), file.join("below")] {
        let error = FileStore::open(&bad, None).err().expect("a file is not a folder").to_string();
        assert!(error.contains(bad.to_str().unwrap()) && error.contains("create the folder"), "{error}");
    }
    let deep = folder.path().join("made/on/demand");
    let client = Client::new(FileStore::open(&deep, None).unwrap());
    win(&client, "import").await;
    fs::remove_dir_all(&deep).unwrap();
    let errors = [
        client.ping().await.err(),
        client.history("a").await.err(),
        client.claim("a", &claim_now()).await.err(),
    ];
    for error in errors {
        let error = error.expect("the folder is gone");
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
        assert!(error.to_string().contains(deep.to_str().unwrap()), "{error}");
    }
}

#[test]
fn opening_removes_files_of_killed_processes_and_no_others() {
    let folder = TempFolder::new();
    let id = "0123456789abcdef0123456789abcdef";
    fs::create_dir(folder.path().join("servers")).unwrap();
    let names = [format!("a.{id}.tmp"), format!("servers/a.{id}.tmp"), format!("b.{id}.tmp")];
    let [abandoned, announced, young, foreign] =
        [&names[0], &names[1], &names[2], "holiday.tmp"].map(|name| {
            let path = folder.path().join(name);
            File::create(&path).unwrap();
            path
        });
    for old in [&abandoned, &announced, &foreign] {
        let then = SystemTime::now() - Duration::from_secs(120);
        File::options().write(true).open(old).unwrap().set_modified(then).unwrap();
    }
    FileStore::open(folder.path(), None).unwrap();
    assert_eq!([abandoned, announced, young, foreign].map(|path| path.exists()), [false, false, true, true]);
}

#[test]
fn many_stuck_keys_leave_the_threads_to_the_others() {
    let folder = TempFolder::in_memory();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = FileStore::open(folder.path(), None).unwrap().with_lock_timeout(Duration::from_secs(2));
        let client = Client::new(store.clone());
        let lease = win(&client, "healthy").await;
        let mut locks = Vec::new();
        let mut stuck = tokio::task::JoinSet::new();
        for index in 0..100 {
            let (client, key) = (client.clone(), format!("stuck-{index}"));
            let lock = File::create(store.state_file(&key).with_extension("lock")).unwrap();
            lock.lock().unwrap();
            locks.push(lock);
            stuck.spawn(async move { client.claim(&key, &claim_now()).await });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let start = Instant::now();
        for _ in 0..10 {
            client.extend("healthy", &lease).await.unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(1), "ten keep-alives took {:?}", start.elapsed());
        assert_eq!(stuck.len(), 100);
        assert!(stuck.try_join_next().is_none(), "a stuck key answered");
        for result in stuck.join_all().await {
            assert_eq!(result.unwrap_err().kind(), StoreErrorKind::TimedOut);
        }
        assert!(start.elapsed() < Duration::from_secs(4), "timed out after {:?}", start.elapsed());
    });
}

#[tokio::test]
async fn a_keep_alive_overtakes_a_crowd_of_claims() {
    const CROWD: usize = 400;
    let folder = TempFolder::new();
    let client = Client::new(FileStore::open(folder.path(), None).unwrap());
    let mut held = client.acquire("running", &claim_now()).await.unwrap().expect("a free key");
    let (asked, decided) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut crowd = tokio::task::JoinSet::new();
    for index in 0..CROWD {
        let (client, asked, decided) = (client.clone(), Arc::clone(&asked), Arc::clone(&decided));
        crowd.spawn(async move {
            asked.fetch_add(1, Ordering::Relaxed);
            win(&client, &format!("job-{index}")).await;
            decided.fetch_add(1, Ordering::Relaxed);
        });
    }
    while asked.load(Ordering::Relaxed) < CROWD {
        tokio::task::yield_now().await;
    }
    // As a server does: without a look, since nothing has changed.
    held.extend().await.unwrap();
    let overtaken = CROWD - decided.load(Ordering::Relaxed);
    assert!(overtaken > CROWD / 2, "only {overtaken} claims were overtaken");
    crowd.join_all().await;
}

#[tokio::test]
async fn many_claims_of_one_tick_in_one_process_have_one_winner() {
    let folder = TempFolder::in_memory();
    let client = Client::new(FileStore::open(folder.path(), None).unwrap());
    let tick = claim_now().what;
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (client, what) = (client.clone(), tick.clone());
        claims.spawn(async move {
            let claim = jobs::store::Claim { what, ..claim_now() };
            matches!(client.claim("import", &claim).await.unwrap().reply.decision, ClaimDecision::Won(_))
        });
    }
    assert_eq!(claims.join_all().await.into_iter().filter(|won| *won).count(), 1);
}
