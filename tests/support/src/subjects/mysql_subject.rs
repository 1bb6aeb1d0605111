//! The MySQL store under test, on MariaDB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::mysql::MysqlStore;
use mysql_async::params;
use mysql_async::prelude::Queryable;
use tokio::sync::Mutex;

use crate::mariadb_server::MariadbServer;
use crate::pools::{ApplicationPool, PoolKind};
use crate::postgres_server::PATIENCE;
use crate::subject::Subject;

/// The shared server, with a namespace of the test's own.
pub async fn mysql() -> Subject {
    let server = tokio::task::spawn_blocking(MariadbServer::shared).await.expect("a server");
    at(server, server.url()).await
}

/// The same server over connections of an application's pool.
pub async fn mysql_async() -> Subject {
    lent_to_all(PoolKind::MysqlAsync).await
}

pub async fn sqlx() -> Subject {
    lent_to_all(PoolKind::SqlxMysql).await
}

async fn lent_to_all(kind: PoolKind) -> Subject {
    let server = tokio::task::spawn_blocking(MariadbServer::shared).await.expect("a server");
    lent(server, kind).await
}

/// A server over connections of an application's pool, with a namespace of the test's own.
pub async fn lent(server: &MariadbServer, kind: PoolKind) -> Subject {
    let pool = kind.pool(&server.url(), 4);
    let open = move |namespace: &str| {
        let store = match &pool {
            ApplicationPool::MysqlAsync(pool) => MysqlStore::from_pool(pool.clone(), Some(namespace)),
            ApplicationPool::SqlxMysql(pool) => MysqlStore::from_sqlx(pool.clone(), Some(namespace)),
            _ => panic!("no pool of MySQL connections"),
        };
        store.expect("a runtime").with_timeouts(PATIENCE, PATIENCE)
    };
    of(server, open).await
}

/// A server by another URL, with a namespace of the test's own.
pub async fn at(server: &MariadbServer, url: String) -> Subject {
    let open = move |namespace: &str| {
        let store = MysqlStore::open(&url, Some(namespace)).expect("a valid URL");
        store.with_timeouts(PATIENCE, PATIENCE)
    };
    of(server, open).await
}

async fn of(server: &MariadbServer, open: impl Fn(&str) -> MysqlStore + Send + Sync + 'static) -> Subject {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (store, prefix) = (open(&namespace), namespace.clone());
    let mut client = server.client().await;
    // Whatever the server's defaults are.
    let session = "SET SESSION TRANSACTION READ WRITE; SET SESSION autocommit = 1, foreign_key_checks = 1, sql_safe_updates = 0,
        completion_type = 0, sql_mode = '', wait_timeout = 28800";
    client.query_drop(session).await.expect("settings");
    let client = Arc::new(Mutex::new(client));
    Subject::new(store)
        .without_notifications()
        .with_wipe(move |key| {
            let (client, namespace) = (Arc::clone(&client), namespace.clone());
            async move {
                // The key's runs and skips go with its row.
                let statement = "DELETE FROM job_lock WHERE namespace = :namespace AND job_name = :key";
                assert!(!key.contains('%') && key.is_ascii(), "a name that the column has encoded: {key}");
                let parameters = params! { "namespace" => namespace, "key" => key };
                client.lock().await.exec_drop(statement, parameters).await.expect("the row is deleted");
            }
        })
        .with_namespaces(move |name| open(&format!("{prefix}.{name}")))
}
