//! The Redis store's connection: lost, stuck, demoted, given up, and opened anew.

mod pauses;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobs::store::redis::RedisStore;
use jobs::store::{Store, StoreErrorKind};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;

use support::bench::{LONG, claim_now};
use support::redis_server::RedisServer;

fn open(server: &RedisServer) -> RedisStore {
    RedisStore::open(&server.url(), None).expect("a valid URL")
}

async fn raw(client: &mut MultiplexedConnection, command: &str) -> redis::Value {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().expect("a command"));
    cmd.arg(words.collect::<Vec<_>>()).query_async(client).await.expect(command)
}

/// How many connections the server has ever accepted, this client's included.
async fn accepted(client: &mut MultiplexedConnection) -> usize {
    let info = format!("{:?}", raw(client, "INFO stats").await);
    let (_, rest) = info.split_once("total_connections_received:").expect("the statistics");
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut server = RedisServer::start();
    let store = open(&server);
    store.look("k").await.expect("the server runs");
    server.kill();
    assert_eq!(store.look("k").await.expect_err("it is gone").kind(), StoreErrorKind::Unreachable);
    server.restart();
    store.look("k").await.expect("it is back");
}

#[tokio::test]
async fn many_callers_share_one_connection() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let before = accepted(&mut plain).await;
    let store = Arc::new(open(&server));
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.look("k").await.expect("ping") })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no panic");
    }
    assert_eq!(accepted(&mut plain).await - before, 1);
}

#[tokio::test]
async fn a_silent_server_times_out_and_the_next_call_opens_another_connection() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let url = format!("{}?response_timeout=100ms", server.url());
    let store = RedisStore::open(&url, None).expect("a valid URL");
    store.look("k").await.expect("the server answers");
    let before = accepted(&mut plain).await;
    raw(&mut plain, "CLIENT PAUSE 400 ALL").await;
    let start = Instant::now();
    let error = store.look("k").await.expect_err("the server is silent");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    assert!(start.elapsed() < Duration::from_millis(300));
    tokio::time::sleep(Duration::from_millis(500)).await;
    store.look("k").await.expect("the server answers again");
    assert_eq!(accepted(&mut plain).await - before, 1);
}

#[tokio::test]
async fn connection_that_is_not_accepted_times_out() {
    // Bound, never accepted from: the handshake succeeds, and no word follows.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://:secret@{}", silent.local_addr().expect("its address"));
    let patience = Duration::from_millis(100);
    let store = RedisStore::open(&url, None).expect("a valid URL").with_timeouts(patience, patience);
    assert_eq!(store.look("k").await.expect_err("silence").kind(), StoreErrorKind::TimedOut);

    let store = RedisStore::open(&format!("{url}?connect_timeout=100ms"), None).expect("a valid URL");
    let begun = Instant::now();
    assert_eq!(store.look("k").await.expect_err("silence").kind(), StoreErrorKind::TimedOut);
    assert!(begun.elapsed() < Duration::from_millis(1_900), "{:?} is the default's time", begun.elapsed());
}

#[tokio::test]
async fn dropped_call_does_not_disturb_other_calls() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let client = Client::new(open(&server).with_timeouts(LONG, LONG));
    let store = client.store();
    store.look("k").await.expect("the server answers");
    raw(&mut plain, "CLIENT PAUSE 300 ALL").await;
    for _ in 0..3 {
        let claim = claim_now("a", LONG);
        let given_up = tokio::time::timeout(Duration::from_millis(20), client.claim("k", &claim)).await;
        assert!(given_up.is_err());
    }
    tokio::time::timeout(Duration::from_secs(2), store.look("k")).await.expect("in time").expect("ping");
}

#[tokio::test]
async fn connection_opens_although_the_call_that_began_it_is_dropped() {
    let server = RedisServer::start();
    let (url, opened) = slow_door(&server, Duration::from_millis(250)).await;
    let store = RedisStore::open(&url, None).expect("a valid URL");
    for _ in 0..4 {
        let given_up = tokio::time::timeout(Duration::from_millis(20), store.look("k")).await;
        assert!(given_up.is_err());
    }
    store.look("k").await.expect("the connection that the first caller began to open");
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

/// A way to the server on which every connection takes a while, and the number of connections so far.
async fn slow_door(server: &RedisServer, delay: Duration) -> (String, Arc<AtomicU32>) {
    let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", door.local_addr().expect("its address"));
    let (opened, port) = (Arc::new(AtomicU32::new(0)), server.port());
    let count = Arc::clone(&opened);
    tokio::spawn(async move {
        while let Ok((mut outside, _)) = door.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let mut inside =
                    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
                let _closed = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    (url, opened)
}

#[tokio::test]
async fn a_demoted_server_is_refused_and_then_asked_over_a_new_connection() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let client = Client::new(open(&server));
    client.ping().await.expect("the server answers");
    let before = accepted(&mut plain).await;
    raw(&mut plain, "REPLICAOF 127.0.0.1 1").await;
    raw(&mut plain, "CONFIG SET replica-serve-stale-data yes").await;
    let error = client.claim("k", &claim_now("a", LONG)).await.expect_err("a replica");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("READONLY"), "{error}");
    raw(&mut plain, "REPLICAOF NO ONE").await;
    client.claim("k", &claim_now("a", LONG)).await.expect("a primary again");
    assert_eq!(accepted(&mut plain).await - before, 1);
}

#[tokio::test]
async fn a_server_without_the_replicas_it_wants_starts_nothing_and_leaves_no_half_written_claim() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let client = Client::new(open(&server));
    raw(&mut plain, "CONFIG SET min-replicas-to-write 1").await;
    let claimed = client.claim("k", &claim_now("a", LONG)).await;
    let info = format!("{:?}", raw(&mut plain, "INFO server").await);
    if info.contains("redis_version:6.") {
        claimed.expect("a limit of this version: it is documented");
        return;
    }
    let error = claimed.expect_err("no replica");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    assert_eq!(raw(&mut plain, "KEYS *").await, redis::Value::Array(Vec::new()));
    raw(&mut plain, "CONFIG SET min-replicas-to-write 0").await;
    client.claim("k", &claim_now("a", LONG)).await.expect("none is wanted any more");
}

#[tokio::test]
async fn data_of_another_version_or_program_is_unreadable_and_not_changed() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let client = Client::new(open(&server));
    raw(&mut plain, r#"SET {lock:newer}:state {"version":"7-7","fence":7,"state":{"format":4}}"#).await;
    raw(&mut plain, "HSET {lock:older}:state format 1 fence 7").await;
    raw(&mut plain, r#"SET {lock:damaged}:state {"version":"7-7","fence":7,"state":{"format":3"#).await;
    raw(&mut plain, "HSET {lock:foreign}:state a b").await;
    raw(&mut plain, "SET {lock:string}:state text").await;
    for key in ["newer", "older", "damaged", "foreign", "string"] {
        let claimed = client.claim(key, &claim_now("a", LONG)).await.expect_err(key);
        let paused = client.set_paused(key, true).await.expect_err(key);
        assert_eq!([claimed.kind(), paused.kind()], [StoreErrorKind::Unreadable; 2], "{claimed}; {paused}");
    }
    assert_eq!(raw(&mut plain, "STRLEN {lock:newer}:state").await, redis::Value::Int(48));
    assert_eq!(raw(&mut plain, "KEYS lock:*").await, redis::Value::Array(Vec::new()));
}
