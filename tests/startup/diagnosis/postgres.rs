//! A real PostgreSQL server with each fault, and one without any.

use std::time::{Duration, Instant};

use jobs::StartError;
use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::postgres::PostgresStore;

use super::{builder, found_by, only};
use support::postgres_server::{PATIENCE, PostgresServer};

fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, None).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

/// The tests' servers do not flush unless they are told to.
#[tokio::test]
async fn a_durable_server_gives_no_finding_and_each_fault_one() {
    let server = PostgresServer::start_with(&["fsync=on"]);
    let store = open(&server.url());
    assert_eq!(found_by(&store, &["import"]).await, []);
    let jobs = builder(&server.url(), 60).start_all().await.expect("a healthy server");
    assert_eq!(jobs.diagnose().await.expect("it answers"), []);
    jobs.shutdown().await;

    let asynchronous = open(&format!("{}?options=-c%20synchronous_commit%3Doff", server.url()));
    let says = ["synchronous_commit is off for this user and database", "set it to on"];
    only(&found_by(&asynchronous, &[]).await, FindingKind::NotDurable, Severity::Warning, &says);

    let administrator = server.client().await;
    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    administrator.batch_execute(create).await.unwrap();
    let latin =
        server.url().rsplit_once('/').map(|(server, _)| open(&format!("{server}/latin"))).expect("a URL");
    assert_eq!(found_by(&latin, &[]).await, [], "its encoding does no harm");

    let newer = "INSERT INTO job_lock (namespace, job_name, version, fence, state) VALUES
        ('', 'newer', '1-1', 1, '{\"format\":4}'), ('', 'ours', '1-0123456789abcdef', 1, '{\"format\":3}')";
    administrator.batch_execute(newer).await.unwrap();
    let findings = found_by(&store, &["new", "newer", "ours"]).await;
    only(
        &findings,
        FindingKind::Unreadable,
        Severity::Warning,
        &["the state of newer was written by another version of this crate"],
    );

    administrator.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    administrator.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let give_up = Instant::now() + PATIENCE;
    let read_only = loop {
        // The session that is open follows; a new one would be refused.
        let findings = jobs::store::Store::diagnose(&store, &[]).await.expect("a session that is still open");
        if !findings.is_empty() || Instant::now() > give_up {
            break findings;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    only(&read_only, FindingKind::NotPrimary, Severity::Error, &["point the URL to the primary"]);
    let Err(error) = builder(&server.url(), 60).start_all().await else { panic!("it started") };
    assert!(matches!(error, StartError::Store { .. }) && error.to_string().contains("read-only"), "{error}");
}

#[tokio::test]
async fn server_without_flushes_is_reported() {
    let store = open(&PostgresServer::shared().url());
    let says = ["fsync is off", "lose or damage", "set it to on"];
    only(&found_by(&store, &[]).await, FindingKind::NotDurable, Severity::Warning, &says);
}
