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
    let first = 20_000 + 100 * u16::try_from(std::process::id() % 100).unwrap();
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

/// A state that stays, and is told from others by its number.
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
    JobRecord::Skip(SkipRecord { tick, at: tick, reason: Skip::Paused, server: "ä\0".into() })
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
        && found.until < expected.until.map(|until| until.plus(Duration::from_secs(1)))
    {
        found.until = expected.until;
    }
    assert_eq!(&found, expected, "round {round}");
}

/// Every swap means what it means for a record in memory.
#[tokio::test]
async fn swap_means_what_record_swap_says() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let (mut record, mut held) = (None, None);
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut applied = 0;
    let mut look = store.look("key").await.unwrap();
    for round in 0..2000_i64 {
        let now = look.now;
        let second = Duration::from_secs(1);
        let limit = |kind| match kind {
            0 => Some(now.minus(second)),
            1 => Some(now.plus(second * 60)),
            _ => None,
        };
        let mut swap = swap(
            &look,
            Change {
                not_before: limit(next(12)),
                not_after: limit(next(12)),
                state: (next(6) > 0).then(|| state(round)),
                fence: match next(4) {
                    0 => FenceChange::Next,
                    1 => {
                        FenceChange::AtLeast(now.plus(second * u32::try_from(next(60)).unwrap()).as_micros())
                    }
                    _ => FenceChange::Keep,
                },
                lock: match next(4) {
                    0 => LockChange::Delete,
                    1 => LockChange::Set {
                        token: format!("token {round}").into(),
                        until: Timestamp::from_micros(now.plus(second * 60).as_micros() / 1000 * 1000),
                    },
                    _ => LockChange::Leave,
                },
                records: (0..next(3)).map(|index| skip(round * 10 + i64::try_from(index).unwrap())).collect(),
                keep: usize::try_from(next(4)).unwrap(),
                ..Change::default()
            },
        );
        swap.nonce = next(u64::MAX);
        if next(8) == 0 {
            swap.expected = None;
        }
        if next(8) == 0 {
            swap.expected_lock = Some("another".into());
        }
        let reply = store.swap("key", &swap).await.unwrap();
        let expected = Record::swap(&mut record, Some(&mut held), reply.now(), &swap);
        match (reply, expected) {
            (SwapReply::Changed(found), SwapReply::Changed(expected)) => {
                assert_shows(found, &expected, round);
            }
            (reply, expected) => {
                assert_eq!(reply, expected, "round {round}: {swap:?}");
                applied += 1;
            }
        }
        look = store.look("key").await.unwrap();
        let expected = Record::look(record.as_ref(), held.as_ref(), look.now);
        assert_shows(look.clone(), &expected, round);
        let records = record.as_ref().map(|record| record.records.clone()).unwrap_or_default();
        assert_eq!(store.records("key").await.unwrap(), records, "round {round}");
    }
    assert!((500..1900).contains(&applied), "{applied} of 2000 swaps were applied");
}

#[tokio::test]
async fn foreign_locks_are_seen_and_compared() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("HSET lock:hash a b").await;
    server.send("SET lock:text other PX 60000").await;
    let mut set = redis::cmd("SET");
    set.arg("lock:bytes").arg(b"\xff\x00\xfe".as_slice());
    set.exec_async(&mut server.connection().await.unwrap()).await.unwrap();
    for (key, expires) in [("hash", false), ("text", true), ("bytes", false)] {
        let look = store.look(key).await.unwrap();
        let foreign: SharedLock = look.lock.clone().unwrap_or_else(|| panic!("no lock of {key}"));
        assert_eq!((look.version, foreign.until.is_some()), (None, expires), "{key}");
        let unlocked = Look { lock: None, ..look.clone() };
        let SwapReply::Changed(changed) = store.swap(key, &swap(&unlocked, claim(1))).await.unwrap() else {
            panic!("the lock of {key} was overlooked");
        };
        assert_eq!(changed.lock.unwrap().token, foreign.token, "{key}");
        swapped(&store, key, &swap(&look, Change { lock: LockChange::Delete, ..claim(1) })).await;
        assert_eq!(store.look(key).await.unwrap().lock, None, "{key}");
    }
}

#[tokio::test]
async fn record_of_another_format_is_refused_by_name() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("HSET {lock:old}:state format 1 token t fence 7").await;
    server.send(r#"SET {lock:newer}:state {"version":"7-7","fence":7,"state":{"format":3}}"#).await;
    server.send("SET {lock:text}:state a").await;
    let mut empty = redis::cmd("SET");
    empty.arg("{lock:empty}:state").arg("");
    empty.exec_async(&mut server.connection().await.unwrap()).await.unwrap();
    let nothing = Look::nothing(Timestamp::now());
    for (key, words) in [
        ("old", "{lock:old}:state is not a string: an older version (format 1)"),
        ("newer", "{lock:newer}:state has format 3, and this version reads format 2"),
        ("text", "{lock:text}:state is not the record of a key"),
        ("empty", "{lock:empty}:state is not a string"),
    ] {
        let refused = store.swap(key, &swap(&nothing, claim(1))).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unreadable, "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        let error = store.look(key).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
    }
    assert_eq!(store.list(None).await.unwrap().keys, []);
    let jobs = ["old", "newer", "text", "new"].map(str::to_owned);
    let findings = store.diagnose(&jobs).await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("old, newer, text was")), "{findings:?}");
}

#[tokio::test]
async fn list_of_wrong_type_fails_before_anything_is_written() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("SET {lock:key}:skips text").await;
    let look = store.look("key").await.unwrap();
    let change = Change { records: vec![skip(1)], keep: 9, ..claim(1) };
    let error = store.swap("key", &swap(&look, change)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
    assert_eq!(store.look("key").await.unwrap().version, None);
}

#[tokio::test]
async fn full_server_refuses_claims_and_takes_extensions_and_releases() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, claim(1))).await;
    server.send("CONFIG SET maxmemory 1").await;
    let look = store.look("key").await.unwrap();
    let error = store.swap("key", &swap(&look, claim(2))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert_eq!(store.look("key").await.unwrap().version, look.version);

    let until = look.now.plus(Duration::from_secs(60));
    let set_lock = LockChange::Set { token: "token".into(), until };
    for fence in [FenceChange::Keep, FenceChange::AtLeast(1)] {
        let look = store.look("key").await.unwrap();
        let change = Change { fence, lock: set_lock.clone(), records: vec![skip(1)], keep: 9, ..claim(2) };
        swapped(&store, "key", &swap(&look, change)).await;
    }
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, Change { lock: LockChange::Delete, ..Change::default() })).await;
    let look = store.look("key").await.unwrap();
    assert_eq!((look.version, look.lock), (None, None));
}

#[tokio::test]
async fn record_expires_after_its_instant_and_not_at_once() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    let expiring = |expires| Arc::new(KeyState { expires: Some(expires), ..KeyState::default() });
    let past = Change { state: Some(expiring(Timestamp::from_micros(0))), ..claim(1) };
    swapped(&store, "key", &swap(&look, past)).await;
    let look = store.look("key").await.unwrap();
    assert!(look.version.is_some());
    // A state that stays is kept, whatever was said of it before.
    swapped(&store, "key", &swap(&look, claim(2))).await;
    assert_eq!(server.send("PTTL {lock:key}:state").await, redis::Value::Int(-1));
    let look = store.look("key").await.unwrap();
    let soon = Change { state: Some(expiring(look.now)), ..claim(3) };
    swapped(&store, "key", &swap(&look, soon)).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(store.look("key").await.unwrap().version, None);
}

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

#[tokio::test]
async fn lease_that_too_few_replicas_have_is_an_error_and_other_swaps_wait_for_none() {
    let server = Server::start(&[]).await;
    let store = server.store().with_wait_replicas(1);
    let look = store.look("key").await.unwrap();
    let lease = Change { grants_lease: true, ..claim(1) };
    let error = store.swap("key", &swap(&look, lease.clone())).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
    let SwapReply::Changed(look) = store.swap("key", &swap(&look, lease)).await.unwrap() else {
        panic!("the swap was applied twice");
    };
    swapped(&store, "key", &swap(&look, claim(2))).await;
}

#[tokio::test]
async fn lease_that_enough_replicas_have_is_won_and_a_replica_takes_none() {
    let primary = Server::start(&[]).await;
    let port = primary.url.rsplit(':').next().unwrap();
    let replica = Server::start(&["--replicaof", "127.0.0.1", port]).await;
    let store = primary.store().with_wait_replicas(1);
    let lease = Change { grants_lease: true, ..claim(1) };
    let begun = std::time::Instant::now();
    loop {
        let look = store.look("key").await.unwrap();
        match store.swap("key", &swap(&look, lease.clone())).await {
            Ok(SwapReply::Swapped(_)) => break,
            Ok(SwapReply::Changed(look)) => panic!("{look:?}"),
            // The replica is not there yet.
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let store = replica.store();
    let look = store.look("key").await.unwrap();
    assert_eq!(look.state, state(1));
    let error = store.swap("key", &swap(&look, lease)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("READONLY"), "{error}");
    let findings = store.diagnose(&[]).await.unwrap();
    assert_eq!(findings[0].kind, FindingKind::NotPrimary, "{findings:?}");
}

/// The permissions that the module lists are enough.
#[tokio::test]
async fn listed_permissions_are_enough() {
    let server = Server::start(&[]).await;
    let docs = include_str!("../../../docs/redis.md");
    let (_, rules) = docs.split_once("ACL SETUSER jobs on >password").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    let rules: Vec<_> = rules.split_whitespace().filter(|word| *word != "//!").collect();
    server.send(&format!("ACL SETUSER jobs on >password {}", rules.join(" "))).await;
    let url = server.url.replace("://", "://jobs:password@");
    let store = RedisStore::open(&url, None).unwrap();
    let look = store.look("key").await.unwrap();
    let until = look.now.plus(Duration::from_secs(60));
    assert!(store.listen("key").await.unwrap().is_some());
    let set_lock = LockChange::Set { token: "token".into(), until };
    let won = Change { lock: set_lock, records: vec![skip(1)], keep: 1, notify: true, ..claim(1) };
    swapped(&store, "key", &swap(&look, won)).await;
    let look = store.look("key").await.unwrap();
    let expiring = Arc::new(KeyState::default());
    let ended = Change { state: Some(expiring), lock: LockChange::Delete, ..Change::default() };
    swapped(&store, "key", &swap(&look, ended)).await;
    assert_eq!(store.records("key").await.unwrap().skips.len(), 1);
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, Change::default())).await;
    for ttl in [Duration::from_secs(9), Duration::ZERO] {
        let note = Note { name: "a".to_owned(), text: "b".into() };
        store.put_note(Topic::Servers, &note, ttl).await.unwrap();
        store.notes(Topic::Servers).await.unwrap();
    }
    store.list(None).await.unwrap();
    let findings = store.diagnose(&["key".to_owned()]).await.unwrap();
    assert!(findings.iter().all(|finding| !finding.message.contains("could not be checked")), "{findings:?}");
}

#[tokio::test]
async fn missing_permission_is_named() {
    let server = Server::start(&[]).await;
    server.send("ACL SETUSER jobs on >password ~* &* +@all -set").await;
    let store = RedisStore::open(&server.url.replace("://", "://jobs:password@"), None).unwrap();
    let look = store.look("key").await.unwrap();
    let error = store.swap("key", &swap(&look, claim(1))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("grant +set"), "{error}");
}

#[test]
fn namespace_called_lock_is_refused() {
    let error = RedisStore::open("redis://host", Some("lock")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("`lock` is taken"), "{error}");
}

#[tokio::test]
async fn version_is_made_of_the_clock_and_the_nonce() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    let done = swapped(&store, "key", &Swap { nonce: u64::MAX, ..swap(&look, claim(1)) }).await;
    assert_eq!(done.version, Version { at: done.now, nonce: u64::MAX });
    assert_eq!(done.fence, done.now.as_micros());
}
