//! The files that tell who is there.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jobs::store::StoreErrorKind;
use jobs::store::file::FileStore;
use jobs::testing::store::Client;

use support::folder::TempFolder;

const LONG: Duration = Duration::from_secs(60);

/// Long enough to be a note, and expired when it is next looked at.
const EXPIRED: Duration = Duration::from_micros(1);

async fn announce(client: &Client, server: &str, ttl: Duration) {
    let about = format!(
        r#"{{"id":"{server}","started":0,"announced":0,"version":"1","jobs":[],"clock_ahead_micros":0,"running":[]}}"#
    );
    client.announce(server, &about, ttl).await.unwrap();
}

async fn listed(client: &Client) -> Vec<String> {
    client.servers().await.unwrap().reply.into_iter().map(|server| server.id).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn expired_files_alone_are_removed_a_part_at_a_time() {
    let folder = TempFolder::in_memory();
    let client = Client::new(FileStore::open(folder.path(), None).unwrap());
    announce(&client, "living", LONG).await;
    let servers = folder.path().join("servers");
    let foreign = ["empty.json", "half.json", "newer.json", "notes.txt"];
    for (name, text) in foreign.iter().zip(["", "{\"until\":1,\"abo", "{\"format\":9}", "\"until\":1"]) {
        fs::write(servers.join(name), text).unwrap();
    }
    for number in 0..150 {
        let gone = format!(r#"{{"name":"gone-{number}","text":"","until":1}}"#);
        fs::write(servers.join(format!("gone-{number}.json")), gone).unwrap();
    }
    for left in [50, 0] {
        assert_eq!(listed(&client).await, ["living"]);
        let names = names(&servers);
        assert_eq!(names.iter().filter(|name| name.starts_with("gone-")).count(), left);
    }
    assert_eq!(names(&servers), ["empty.json", "half.json", "living.json", "newer.json", "notes.txt"]);
}

#[tokio::test]
async fn removed_folder_is_not_created_again_by_a_heartbeat() {
    let folder = TempFolder::new();
    let below = folder.path().join("store");
    let client = Client::new(FileStore::open(&below, None).unwrap());
    announce(&client, "a", LONG).await;
    fs::remove_dir_all(&below).unwrap();
    let errors = [client.announce("a", "{}", LONG).await.err(), client.servers().await.err()];
    for error in errors {
        assert_eq!(error.expect("the folder is gone").kind(), StoreErrorKind::Unreachable);
    }
    assert!(!below.exists());
}

/// Readers that find an announcement expired race with its server, which renews it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn heartbeat_that_is_renewed_during_its_removal_stays() {
    let folder = TempFolder::in_memory();
    let client = Client::new(FileStore::open(folder.path(), None).unwrap());
    // Many, so that it takes a while from reading the first to removing it.
    let servers: Vec<_> = (10..60).map(|number| format!("server-{number}")).collect();
    let over = Arc::new(AtomicBool::new(false));
    let reader = async |client: Client, over: Arc<AtomicBool>| {
        while !over.load(Ordering::Relaxed) {
            client.servers().await.unwrap();
        }
    };
    let readers: Vec<_> = (0..2).map(|_| tokio::spawn(reader(client.clone(), Arc::clone(&over)))).collect();
    for round in 0..20 {
        for server in &servers {
            announce(&client, server, EXPIRED).await;
            announce(&client, server, LONG).await;
        }
        let begun = Instant::now();
        while listed(&client).await != servers {
            assert!(begun.elapsed() < Duration::from_secs(1), "one was gone after round {round}");
        }
    }
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(names(&folder.path().join("servers")).len(), servers.len());
}
