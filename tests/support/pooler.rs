//! PgBouncer before the shared PostgreSQL server, with a connection per transaction.

use std::process::Child;
use std::sync::OnceLock;

use super::folder::TempFolder;
use super::postgres_server::{PostgresServer, answers_soon, free_port, watched};

/// A pooler that has fewer connections than it has clients.
pub struct Pooler {
    _watched: Child,
    port: u16,
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
             pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n",
            server.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file in the folder");
        let watched = watched(&folder, "TERM").arg("pgbouncer").arg(file).spawn().expect("sh");
        assert!(
            answers_soon(port),
            "pgbouncer does not start: run ./tests/run, or install it: apt-get install pgbouncer"
        );
        // The shell removes it.
        std::mem::forget(folder);
        Self { _watched: watched, port }
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
