//! The store against a real server, started for each test. Needs `redis-server`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use super::super::{
    Change, FenceChange, JobRecord, KeyState, LockChange, Look, Note, Record, SharedLock, Skip, SkipRecord,
    Store, StoreErrorKind, Swap, SwapReply, Topic, Version,
};
use super::RedisStore;
use crate::Timestamp;
use crate::diagnosis::FindingKind;

mod cluster;
mod replicas;
mod swaps;

/// A server that keeps nothing, and ends with the test.
struct Server {
    process: Child,
    url: String,
    /// Replicas and nodes of a cluster write files.
    folder: PathBuf,
}

impl Server {
    async fn start(options: &[&str]) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("jobs-redis-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(options)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be started");
        let server = Self { process, url: format!("redis://127.0.0.1:{port}"), folder };
        while server.connection().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }

    async fn connection(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        redis::Client::open(self.url.as_str())?.get_multiplexed_async_connection().await
    }

    /// Sends a command that is given as words.
    async fn send(&self, command: &str) -> redis::Value {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        cmd.query_async(&mut self.connection().await.unwrap()).await.unwrap()
    }

    fn store(&self) -> RedisStore {
        RedisStore::open(&self.url, None).unwrap()
    }
}

/// A port below those that the system chooses from, where other test programs start their servers at the same time.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 25_000 + 50 * u16::try_from(std::process::id() % 100).unwrap();
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
        let _may_stay = std::fs::remove_dir_all(&self.folder);
    }
}

/// A state that stays, and differs from others by its number.
fn state(number: i64) -> Arc<KeyState> {
    Arc::new(KeyState { expires: None, reset_fence: Some(number), ..KeyState::default() })
}

fn swap(look: &Look, change: Change) -> Swap {
    let expected_lock = look.lock.as_ref().map(|lock| lock.token.clone());
    Swap { expected: look.version, expected_lock, nonce: 7, change }
}

fn claim(number: i64) -> Change {
    Change { state: Some(state(number)), fence: FenceChange::Next, ..Change::default() }
}

fn skip(tick: i64) -> JobRecord {
    let tick = Timestamp::from_micros(tick);
    JobRecord::Skip(SkipRecord::new(tick, Skip::Paused, "ä\0", tick))
}

async fn swapped(store: &RedisStore, key: &str, swap: &Swap) -> super::super::Swapped {
    match store.swap(key, swap).await.unwrap() {
        SwapReply::Swapped(swapped) => swapped,
        SwapReply::Changed(look) => panic!("{swap:?} found {look:?}"),
    }
}

/// Whether a look shows what is expected. A lock may seem to last a little longer than it does.
fn assert_shows(mut found: Look, expected: &Look, round: i64) {
    if let (Some(found), Some(expected)) = (&mut found.lock, &expected.lock)
        && found.until > expected.until
        && found.until < expected.until.map(|until| until + Duration::from_secs(1))
    {
        found.until = expected.until;
    }
    assert_eq!(&found, expected, "round {round}");
}

/// Every swap means what it means for a record in memory.

#[tokio::test]
async fn pages_list_every_key_once_or_more() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let nothing = Look::nothing(Timestamp::now());
    for key in 0..1500 {
        swapped(&store, &format!("job-{key}"), &swap(&nothing, claim(key))).await;
    }
    server.send("SET lock:foreign other").await;
    server.send("SET shop:lock:elsewhere other").await;
    let mut found = std::collections::BTreeMap::new();
    let (mut page, mut pages) = (None::<String>, 0);
    loop {
        let listed = store.list(page.as_deref()).await.unwrap();
        found.extend(listed.keys);
        pages += 1;
        page = listed.next;
        if page.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), pages <= 3), (1501, true), "{pages} pages");
    assert_eq!(found["job-7"].state, state(7));
    assert_eq!(found["foreign"].lock.as_ref().unwrap().token.as_ref(), "other");
    assert!(store.list(Some("x")).await.is_err());
}

#[tokio::test]
async fn notes_are_replaced_removed_and_expire() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let note = |name: &str, text: &str| Note { name: name.to_owned(), text: text.into() };
    let minute = Duration::from_secs(60);
    for (note, ttl) in [
        (note("b", "1"), minute),
        (note("a", "ä"), minute),
        (note("b", "2"), minute),
        (note("c", "3"), minute),
        (note("c", "3"), Duration::ZERO),
        (note("d", "4"), Duration::from_millis(20)),
    ] {
        store.put_note(Topic::Servers, &note, ttl).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(40)).await;
    let found = store.notes(Topic::Servers).await.unwrap();
    assert_eq!(found.notes, [note("a", "ä"), note("b", "2")]);
    assert_eq!(store.notes(Topic::Requests).await.unwrap().notes, []);
    store.put_note(Topic::Servers, &note("e", ""), minute).await.unwrap();
    assert_eq!(server.send("ZCARD {notes}:servers:expiries").await, redis::Value::Int(3));
    assert_eq!(server.send("HLEN {notes}:servers:texts").await, redis::Value::Int(3));
}

#[tokio::test]
async fn listener_is_notified_only_by_swaps_that_notify() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let mut listener = store.listen("key").await.unwrap().expect("notifications");
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, claim(1))).await;
    let patience = Duration::from_millis(100);
    assert!(tokio::time::timeout(patience, listener.notified()).await.is_err());
    for number in 2..4 {
        let look = store.look("key").await.unwrap();
        swapped(&store, "key", &swap(&look, Change { notify: true, ..claim(number) })).await;
        assert!(tokio::time::timeout(Duration::from_secs(5), listener.notified()).await.unwrap());
    }
}
