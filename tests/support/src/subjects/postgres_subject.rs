//! The PostgreSQL store under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::postgres::PostgresStore;
use tokio_postgres::types::{ToSql, Type};

use crate::pooler::Pooler;
use crate::pools::{ApplicationPool, PoolKind};
use crate::postgres_server::{PATIENCE, PostgresServer};
use crate::subject::Subject;

/// The shared server, with a namespace of the test's own.
pub async fn postgres() -> Subject {
    at(PostgresServer::shared().url()).await
}

/// The same server behind a pooler: every request may use another session.
pub async fn pooled() -> Subject {
    // `LISTEN` succeeds there, and receives nothing.
    at(Pooler::shared().url()).await.without_notifications()
}

/// The same server over connections of an application's pool.
pub async fn deadpool() -> Subject {
    lent(PoolKind::DeadpoolPostgres).await
}

pub async fn sqlx() -> Subject {
    lent(PoolKind::SqlxPostgres).await
}

async fn lent(kind: PoolKind) -> Subject {
    let pool = kind.pool(&PostgresServer::shared().url(), 4);
    let open = move |namespace: &str| {
        let store = match &pool {
            ApplicationPool::DeadpoolPostgres(pool) => {
                PostgresStore::from_pool(pool.clone(), Some(namespace))
            }
            ApplicationPool::SqlxPostgres(pool) => PostgresStore::from_sqlx(pool.clone(), Some(namespace)),
            _ => panic!("no pool of PostgreSQL connections"),
        };
        store.expect("a runtime").with_timeouts(PATIENCE, PATIENCE)
    };
    of(open).await.without_notifications()
}

async fn at(url: String) -> Subject {
    let open = move |namespace: &str| {
        let store = PostgresStore::open(&url, Some(namespace)).expect("a valid URL");
        store.with_timeouts(PATIENCE, PATIENCE)
    };
    of(open).await
}

async fn of(open: impl Fn(&str) -> PostgresStore + Send + Sync + 'static) -> Subject {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (store, prefix) = (open(&namespace), namespace.clone());
    let client = Arc::new(PostgresServer::shared().client().await);
    Subject::new(store)
        .with_wipe(move |key| {
            let (client, namespace) = (Arc::clone(&client), namespace.clone());
            async move {
                // The key's runs and skips go with its row.
                let statement = "DELETE FROM job_lock WHERE namespace = $1 AND job_name = $2";
                let arguments: [(&(dyn ToSql + Sync), Type); 2] =
                    [(&namespace, Type::TEXT), (&key, Type::TEXT)];
                client.query_typed(statement, &arguments).await.expect("the row is deleted");
            }
        })
        .with_namespaces(move |name| open(&format!("{prefix}.{name}")))
}
