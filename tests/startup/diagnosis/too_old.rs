//! Real servers of versions that are too old: a start refuses them, and names the version that is needed.
//!
//! `./tests/run --matrix` installs such servers, and runs each of these tests on one. What it prints stands in the guide.

use jobs::StartError;
use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::StoreErrorKind;
use support::mariadb_server::MariadbServer;
use support::postgres_server::PostgresServer;
use support::redis_server::RedisServer;

use super::builder;

/// Expects a start to be refused because the server is too old: by the diagnosis, or already at the first look if it
/// does not even take the tables. The message must end with this advice.
async fn refused(url: &str, advice: &str) {
    let Err(error) = builder(url, 60).start_all().await else { panic!("it started") };
    let message = match &error {
        StartError::Unfit { findings, .. } => {
            let [finding] = &findings[..] else { panic!("one finding was expected: {findings:#?}") };
            assert_eq!((finding.kind, finding.severity), (FindingKind::TooOld, Severity::Error), "{finding}");
            finding.message.clone()
        }
        StartError::Store { error, .. } => {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
            error.cause().to_string()
        }
        _ => panic!("{error}"),
    };
    assert!(message.ends_with(advice), "{message}");
    println!("refused: {message}");
}

#[tokio::test]
#[ignore = "needs a Redis before 6.2: ./tests/run --matrix"]
async fn start_refuses_a_redis_that_is_too_old() {
    let server = RedisServer::start_with(&["--appendonly", "yes"]);
    refused(&server.url(), "use Redis 6.2 or newer").await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL before 12: ./tests/run --matrix"]
async fn start_refuses_a_postgres_that_is_too_old() {
    let server = PostgresServer::start_with(&["fsync=on"]);
    refused(&server.url(), "which is too old; use PostgreSQL 12 or newer").await;
}

#[tokio::test]
#[ignore = "needs a MariaDB before 10.3, or a MySQL before 8.0: ./tests/run --matrix"]
async fn start_refuses_a_mariadb_or_mysql_that_is_too_old() {
    let server = MariadbServer::start();
    refused(&server.url(), "which is too old; use MySQL 8.0 or MariaDB 10.3, or a newer one").await;
}
