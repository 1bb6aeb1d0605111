//! PgBouncer before the shared PostgreSQL server, with a connection per transaction.

use std::process::Child;
use std::sync::OnceLock;

use crate::chosen;
use crate::folder::TempFolder;
use crate::home::{Server, Whereabouts};
use crate::port::free_port;
use crate::postgres_server::{PostgresServer, answers_soon, watched};

/// A pooler that has fewer connections than it has clients.
pub struct Pooler {
    watched: Child,
    port: u16,
    /// Where the server itself is.
    server: String,
}

impl Pooler {
    /// One for all tests of a program, up to its end.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Pooler> = OnceLock::new();
        SHARED.get_or_init(|| Self::before(PostgresServer::shared()))
    }

    fn before(server: &PostgresServer) -> Self {
        let (folder, port) = (TempFolder::in_memory(), free_port());
        let settings = format!(
            "[databases]\n\
             postgres = host=127.0.0.1 port={} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\nserver_login_retry = 0.1\n",
            server.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file in the folder");
        let program = chosen::path(chosen::PGBOUNCER).unwrap_or_else(|| "pgbouncer".into());
        let watched = watched(&folder, "TERM").arg(program).arg(file).spawn().expect("sh");
        assert!(
            answers_soon(port),
            "pgbouncer does not start: run ./tests/run, or install it: apt-get install pgbouncer"
        );
        // The shell removes it.
        std::mem::forget(folder);
        Self { watched, port, server: server.url() }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.watched.stdin.take());
        let _ended = self.watched.wait();
    }
}

impl Whereabouts for Pooler {
    fn url(&self) -> String {
        self.url()
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.server.clone()]
    }
}

/// A server behind a pooler, both of the test's own.
pub struct PooledServer {
    pooler: Pooler,
    server: PostgresServer,
}

impl PooledServer {
    pub fn start() -> Self {
        let server = PostgresServer::start();
        Self { pooler: Pooler::before(&server), server }
    }
}

impl Whereabouts for PooledServer {
    fn url(&self) -> String {
        self.pooler.url()
    }

    fn nodes(&self) -> Vec<String> {
        self.pooler.nodes()
    }
}

/// Of the server: the pooler stays.
impl Server for PooledServer {
    fn kill(&mut self) {
        self.server.kill();
    }

    fn restart(&mut self) {
        self.server.restart();
    }
}
