//! Environment variables that choose another server than the installed one. `tests/README.md` lists them.

use std::path::PathBuf;

/// The program of a Redis or Valkey server.
pub const REDIS_SERVER: &str = "JOBS_TEST_REDIS_SERVER";
/// The folder of PostgreSQL's programs. Those that it lacks are the installed ones.
pub const POSTGRES_BIN: &str = "JOBS_TEST_POSTGRES_BIN";
/// The program of a pooler that reads the configuration of PgBouncer.
pub const PGBOUNCER: &str = "JOBS_TEST_PGBOUNCER";
/// The program of a MariaDB or MySQL server.
pub const MARIADBD: &str = "JOBS_TEST_MARIADBD";

/// The path in the variable, if it is set.
pub fn path(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}
