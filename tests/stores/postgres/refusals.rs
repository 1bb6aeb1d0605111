//! What cannot work is said clearly, and without a password.

use std::net::TcpListener;
use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::store::{Store, StoreError, StoreErrorKind};
use jobs::testing::store::Client;

use super::{open, store_at, unused_name, win};
use support::bench::{LONG, claim_now};
use support::postgres_server::PostgresServer;

async fn refusal(url: &str) -> StoreError {
    let patience = Duration::from_secs(5);
    let store = PostgresStore::open(url, None).expect("a URL").with_timeouts(patience, patience);
    let error = store.look("key").await.expect_err(url);
    let said = format!("{error} {error:?} {store:?}");
    assert!(!said.contains("secret"), "{said}");
    error
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_repeated() {
    let server = PostgresServer::shared();
    let create = "DO $$ BEGIN CREATE ROLE guarded LOGIN PASSWORD 'right'; END $$";
    server.client().await.batch_execute(create).await.unwrap();
    let error = refusal(&server.url_of("guarded:secret")).await;
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains("password authentication failed for user \"guarded\""), "{error}");
    let error = refusal(&server.url_of("guarded")).await;
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("asks for a password"), "{error}");
    let error = refusal(&format!("{}?schema={}", server.url_of("guarded:right"), unused_name())).await;
    assert!(error.to_string().contains("cannot be created"), "it may come in, and make nothing: {error}");
}

#[tokio::test]
async fn a_missing_database_is_named() {
    let url = format!("{}-elsewhere", PostgresServer::shared().url_of("postgres:secret"));
    let error = refusal(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("\"postgres-elsewhere\" does not exist"), "{error}");
}

#[tokio::test]
async fn a_closed_port_and_a_silent_one_are_named() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address").to_string();
    let url = format!("postgres://jobs:secret@{address}/shop");
    let store = PostgresStore::open(&url, None).expect("a URL");
    let store = store.with_timeouts(Duration::from_millis(100), Duration::from_millis(100));
    assert_eq!(store.look("key").await.expect_err("silence").kind(), StoreErrorKind::TimedOut);
    let store = PostgresStore::open(&format!("{url}?connect_timeout=123ms"), None).expect("a URL");
    let error = store.look("key").await.expect_err("silence");
    assert!(error.to_string().contains("no connection within 123ms"), "{error}");
    drop(silent);
    let error = refusal(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains(&address) && error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_standby_decides_nothing() {
    let mut server = PostgresServer::start();
    let store = open(&server, &unused_name());
    store.ping().await.expect("a primary");
    server.kill();
    std::fs::write(server.data().join("standby.signal"), "").unwrap();
    server.restart();
    let error = refusal(&server.url_of("postgres:secret")).await;
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains("standby"), "{error}");
}

#[tokio::test]
async fn key_that_no_text_column_takes_is_an_error() {
    let store = open(PostgresServer::shared(), &unused_name());
    let error = store.claim("a\0", &claim_now("a", LONG)).await.expect_err("a NUL");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("use names in ASCII"), "{error}");
    // The control: whatever else is in a key does no harm.
    for key in
        ["k".repeat(1_000), "a b".to_owned(), "'; DROP TABLE job_lock --".to_owned(), "世界".to_owned()]
    {
        win(&store, &key, &claim_now("a", LONG)).await;
    }
}

/// A password may be anywhere in a URL that is malformed.
#[tokio::test]
async fn malformed_url_is_not_repeated_by_a_start() {
    for url in [
        "postgres://u:a@b/secret@127.0.0.1:1/db",
        "postgres://u:secret@127.0.0.1:port/db",
        "postgres://127.0.0.1:1/db?password=secret&password=secret&schema=a&schema=secret",
        "postgres://u:p@127.0.0.1:1/db?sslmode=secret",
        "mysql://u:secret@127.0.0.1:1/db",
    ] {
        let opened = PostgresStore::open(url, None);
        let error = opened.expect_err(url);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let Err(start) = jobs::builder().without_annotated().url(url).start_all().await else {
            panic!("{url}")
        };
        let said = format!("{error} {error:?} {start} {start:?}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn a_full_row_of_waiters_is_answered_in_time() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let short = Duration::from_millis(300);
    let store = Client::new(store_at(&server.url(), &namespace).with_timeouts(LONG, short));
    store.set_paused("job", false).await.expect("the server answers");
    store.set_paused("job", true).await.expect("the server answers");
    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    holding.batch_execute("SELECT 1 FROM job_lock FOR UPDATE").await.unwrap();
    for _ in 0..8 {
        let error = store.set_paused("job", false).await.expect_err("the row is locked");
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    }
    // What nobody waits for any longer does not pile up on the server.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'singleton-jobs'";
    let waiting: i64 = holding.query_typed(sessions, &[]).await.unwrap()[0].get(0);
    assert!(waiting <= 6, "{waiting} sessions wait");
    holding.rollback().await.unwrap();
    store.set_paused("job", false).await.expect("the row is free");
}
