//! Effects exactly once: what a run writes to the database that is the store, under kills, stops, takeovers and operators.
#![cfg(unix)]

mod conditions;
mod edges;
mod kills;
mod locks;
mod runs;
mod stops;

use std::sync::atomic::{AtomicU32, Ordering};

use support::bank::Bank;
use support::folder::TempFolder;
use support::mariadb_server::MariadbServer;
use support::postgres_server::PostgresServer;

/// A database that the test has for itself, and what keeps it.
struct TestBank {
    bank: Bank,
    namespace: String,
    folder: TempFolder,
}

impl TestBank {
    async fn on(kind: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("effects{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = TempFolder::in_memory();
        let url = match kind {
            "postgres" => {
                tokio::task::spawn_blocking(|| PostgresServer::shared().url()).await.expect("a server")
            }
            "mysql" => tokio::task::spawn_blocking(|| MariadbServer::shared().url()).await.expect("a server"),
            _ => format!("sqlite://{}", folder.path().join("bank.db").display()),
        };
        let bank = Bank::at(&url);
        bank.set_up().await.expect("a table");
        Self { bank, namespace, folder }
    }

    /// A server of the application.
    async fn server(&self, jobs: impl IntoIterator<Item = jobs::Job>) -> jobs::Jobs {
        let builder = jobs::builder().url(self.bank.url()).namespace(&self.namespace).without_annotated();
        builder.jobs(jobs).start_all().await.expect("a server")
    }

    /// A program that uses locks, and operates the jobs of others.
    async fn program(&self) -> jobs::Jobs {
        let builder = jobs::builder().url(self.bank.url()).namespace(&self.namespace).without_jobs();
        builder.start_all().await.expect("a connection")
    }
}

/// A test for each kind of database.
macro_rules! on_every_database {
    ($($name:ident;)+) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(&crate::TestBank::on("postgres").await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_mariadb() {
                super::$name(&crate::TestBank::on("mysql").await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(&crate::TestBank::on("sqlite").await).await;
            }
        }
    )+};
}
pub(crate) use on_every_database;
