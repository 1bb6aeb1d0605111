//! What a server refuses, and what a start refuses or reports.

use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::mysql::MysqlStore;
use jobs::store::{Store, StoreErrorKind};
use mysql_async::prelude::Queryable;

use super::{KEY, apply, shared, started_with, store_at, swap_from, unused_name};

async fn findings(store: &MysqlStore) -> Vec<(FindingKind, Severity)> {
    let found = store.diagnose(&[KEY.to_owned()]).await.expect("a diagnosis");
    found.iter().map(|finding| (finding.kind, finding.severity)).collect()
}

#[tokio::test]
async fn a_healthy_server_gives_no_finding() {
    let store = store_at(&shared().await.url(), &unused_name());
    apply(&store, &swap_from(None)).await;
    assert_eq!(findings(&store).await, []);
}

/// Also to a user who may write there: it may be a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_grants_nothing_to_any_user() {
    let server = started_with(&["innodb-flush-log-at-trx-commit=2"]).await;
    let [jobs, admin] = ["jobs:sesame", "admin"].map(|user| store_at(&server.url_of(user), "shop"));
    let first = apply(&jobs, &swap_from(None)).await;
    assert_eq!(findings(&jobs).await, [(FindingKind::NotDurable, Severity::Warning)]);
    server.client().await.query_drop("SET GLOBAL read_only = 1").await.expect("a setting");
    for store in [&jobs, &admin] {
        let look = store.look(KEY).await.expect_err("a look");
        let swap = store.swap(KEY, &swap_from(Some(first.version))).await.expect_err("a swap");
        for error in [look, swap] {
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("point the URL to the primary"), "{error}");
        }
        assert_eq!(findings(store).await, [(FindingKind::NotPrimary, Severity::Error)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_engine_and_an_unreadable_state_are_found() {
    let server = started_with(&[]).await;
    let store = store_at(&server.url(), "shop");
    apply(&store, &swap_from(None)).await;
    let mut client = server.client().await;
    client.query_drop("UPDATE job_lock SET state = '{\"format\":99}'").await.expect("damage");
    assert_eq!(findings(&store).await, [(FindingKind::Unreadable, Severity::Warning)]);
    for error in [store.look(KEY).await.err(), store.swap(KEY, &swap_from(None)).await.err()] {
        assert_eq!(error.expect("an error").kind(), StoreErrorKind::Unreadable);
    }
    // As a table that was there before: no engine but InnoDB takes keys of this length in every version.
    let other =
        "DELETE FROM job_lock; DROP TABLE job_note; CREATE TABLE job_note (name VARCHAR(10)) ENGINE = MyISAM";
    client.query_drop(other).await.expect("another engine");
    assert_eq!(findings(&store).await, [(FindingKind::NotDurable, Severity::Error)]);
}

#[tokio::test]
async fn errors_name_the_remedy_and_never_the_password() {
    let server = shared().await;
    for (url, remedy) in [
        (server.url_of("jobs:wrong-secret"), "check user and password in the URL"),
        (server.url().replace("/jobs", "/none"), "check user and password in the URL"),
        (server.url_of("admin").replace("/jobs", "/none"), "create the database"),
        ("mysql://jobs:wrong-secret@127.0.0.1:1/jobs".to_owned(), "no server listens there"),
    ] {
        let store = MysqlStore::open(&url, None).expect("a URL");
        let error = store.look(KEY).await.expect_err("no connection");
        let said = format!("{error} {error:?} {store:?} {}", store.location());
        assert!(said.contains(remedy), "{said}");
        assert!(!said.contains("secret") && !said.contains("sesame"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_the_server_are_named() {
    let server =
        started_with(&["max-allowed-packet=16384", "log-bin=jobs", "server-id=1", "binlog-format=STATEMENT"])
            .await;
    let store = store_at(&server.url(), "shop");
    let error = store.swap(KEY, &swap_from(None)).await.expect_err("the binary log cannot hold it");
    assert!(error.to_string().contains("set it to ROW or MIXED"), "{error}");
    server.client().await.query_drop("SET GLOBAL binlog_format = MIXED").await.expect("a setting");
    // A setting of new sessions.
    let store = store_at(&server.url(), "shop");
    let first = apply(&store, &swap_from(None)).await;
    let error = store.look(&"k".repeat(20_000)).await.expect_err("too large");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    apply(&store, &swap_from(Some(first.version))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_can_create_the_tables_for_a_user_with_few_rights() {
    let server = started_with(&[]).await;
    let mut admin = server.client().await;
    admin.query_drop("CREATE USER clerk@'%' IDENTIFIED BY 'sesame'").await.expect("a user");
    admin.query_drop("GRANT USAGE ON jobs.* TO clerk@'%'; GRANT SELECT ON jobs.none TO clerk@'%'").await.ok();
    admin
        .query_drop("CREATE TABLE jobs.none (n INT); GRANT SELECT ON jobs.none TO clerk@'%'")
        .await
        .expect("a right");
    let store = store_at(&server.url_of("clerk:sesame"), "shop");
    let error = store.look(KEY).await.expect_err("no right");
    assert!(error.to_string().contains("MysqlStore::setup_sql"), "{error}");
    for _ in 0..2 {
        admin.query_drop(store.setup_sql()).await.expect("the script, also repeated");
    }
    let store = store_at(&server.url_of("clerk:sesame"), "shop");
    apply(&store, &swap_from(None)).await;
}
