//! The PostgreSQL store under test.

use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Timestamp;
use jobs::store::postgres::PostgresStore;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::pooler::Pooler;
use super::postgres_server::{PATIENCE, PostgresServer};
use super::subject::{Subject, Tamper, Tampering};

/// The shared server, with a namespace of the test's own.
pub async fn postgres() -> Subject {
    at(PostgresServer::shared().url()).await
}

/// The same server behind a pooler: every step may go over another session.
pub async fn pooled() -> Subject {
    at(Pooler::shared().url()).await
}

async fn at(url: String) -> Subject {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let open = move |namespace: &str| {
        let store = PostgresStore::open(&url, Some(namespace)).expect("a valid URL");
        store.with_timeouts(PATIENCE, PATIENCE)
    };
    let (store, prefix) = (open(&namespace), namespace.clone());
    Subject::new(store)
        .tampered_by(PostgresHand { client: PostgresServer::shared().client().await, namespace })
        .namespaced_by(move |name| open(&format!("{prefix}.{name}")))
}

struct PostgresHand {
    client: Client,
    namespace: String,
}

impl PostgresHand {
    /// The namespace is the first argument, the key the second.
    async fn run(&self, key: &str, statement: &str, more: &[(&(dyn ToSql + Sync), Type)]) -> Option<String> {
        let mut arguments: Vec<(&(dyn ToSql + Sync), Type)> =
            vec![(&self.namespace, Type::TEXT), (&key, Type::TEXT)];
        arguments.extend_from_slice(more);
        let rows = self.client.query_typed(statement, &arguments).await.expect(statement);
        rows.first().and_then(|row| row.get(0))
    }
}

impl Tamper for PostgresHand {
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>> {
        let statement = "SELECT lock_token FROM job_lock WHERE namespace = $1 AND job_name = $2
            AND (lock_until IS NULL OR lock_until > extract(epoch FROM clock_timestamp()) * 1000000)";
        Box::pin(self.run(key, statement, &[]))
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        let statement =
            "INSERT INTO job_lock (namespace, job_name, lock_token, lock_until) VALUES ($1, $2, $3, $4)
            ON CONFLICT (namespace, job_name) DO UPDATE SET lock_token = $3, lock_until = $4";
        Box::pin(async move {
            let until = until.map(Timestamp::as_micros);
            self.run(key, statement, &[(&token, Type::TEXT), (&until, Type::INT8)]).await;
        })
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        let statement = "UPDATE job_lock SET lock_token = NULL, lock_until = NULL
            WHERE namespace = $1 AND job_name = $2";
        Box::pin(async move { drop(self.run(key, statement, &[]).await) })
    }

    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        let statement = "WITH runs AS (DELETE FROM job_run WHERE namespace = $1 AND job_name = $2),
            skips AS (DELETE FROM job_skip WHERE namespace = $1 AND job_name = $2)
            DELETE FROM job_lock WHERE namespace = $1 AND job_name = $2";
        Box::pin(async move { drop(self.run(key, statement, &[]).await) })
    }
}
