//! How a store is made: from a URL, or from connections that the application lends.

use std::sync::atomic::AtomicU32;

use singleton_jobs_policy::check_name;

use super::super::tls::Certificates;
use super::super::{StoreError, StoreErrorKind};
use super::connection::Connection;
use super::source::Source;
use super::statements::Statements;
use super::tables::Tables;
use super::{PostgresStore, address, encryption};

const DEFAULT_SCHEMA: &str = "public";

impl PostgresStore {
    /// Reads a URL such as `postgres://user:password@host:5432/database`; connects to nothing yet.
    ///
    /// Two fleets on one database stay apart by different namespaces, or by different schemas.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, Certificates::default())
    }

    /// The same with certificates that are not in files.
    #[cfg(feature = "tls")]
    pub fn open_with(
        url: &str,
        namespace: Option<&str>,
        certificates: Certificates,
    ) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, certificates)
    }

    fn open_as(url: &str, namespace: Option<&str>, certificates: Certificates) -> Result<Self, StoreError> {
        let mut address = address::parse(url).map_err(misconfigured)?;
        let certificates = certificates.and_those_in(&address.files).map_err(misconfigured)?;
        let encryption = encryption::prepare(address.sslmode.as_deref(), &certificates, &mut address.config);
        let encryption = encryption.map_err(misconfigured)?;
        let location = address::without_password(&address.config);
        let user = address.config.get_user().map(str::to_owned);
        let connection = Connection::new(address.config, encryption, address.timeouts);
        let store = Self { user, ..Self::over(connection, location, namespace)? };
        match address.schema {
            Some(schema) => store.with_schema(&schema),
            None => Ok(store),
        }
    }

    /// Borrows the application's connections, one for each request.
    pub fn from_source(source: impl Source, namespace: Option<&str>) -> Result<Self, StoreError> {
        let location = source.location();
        Self::over(Connection::lent_by(source), location, namespace)
    }

    /// Borrows connections out of the application's pool. Call it inside the application's Tokio runtime, where new ones
    /// are opened.
    ///
    /// A request that waits for one for longer than [the time-out](Self::with_timeouts) fails, and is repeated as after any
    /// other failure. A job that blocks the application's runtime may lose its lease, because the pool's connections
    /// live there; with a URL the store has a connection on a thread of its own.
    ///
    /// ```no_run
    /// # async fn start(pool: deadpool_postgres::Pool) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobs::store::postgres::PostgresStore;
    ///
    /// let store = PostgresStore::from_pool(pool, None)?;
    /// let jobs = jobs::builder().store(store).start_all().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "deadpool-postgres")]
    pub fn from_pool(pool: deadpool_postgres::Pool, namespace: Option<&str>) -> Result<Self, StoreError> {
        let app = tokio::runtime::Handle::try_current().map_err(|_| {
            misconfigured("a pool is handed over inside the application's Tokio runtime".to_owned())
        })?;
        Self::from_source(super::deadpool::Deadpool { pool, app }, namespace)
    }

    fn over(connection: Connection, location: String, namespace: Option<&str>) -> Result<Self, StoreError> {
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| misconfigured(format!("namespace: {problem}")))?;
        }
        Ok(Self {
            location,
            user: None,
            namespace: namespace.unwrap_or_default().to_owned(),
            tables: Tables::new(connection, DEFAULT_SCHEMA),
            statements: Statements::of(DEFAULT_SCHEMA),
            added: AtomicU32::new(0),
        })
    }

    /// Keeps everything in this schema, which is made if it is not there.
    pub fn with_schema(mut self, schema: &str) -> Result<Self, StoreError> {
        address::check_schema(schema).map_err(misconfigured)?;
        schema.clone_into(&mut self.tables.schema);
        self.statements = Statements::of(schema);
        Ok(self)
    }
}

fn misconfigured(cause: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "open", "a PostgreSQL URL", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_url_is_not_repeated() {
        for url in
            ["redis://u:secret@host/1", "mysql://secret@host", "secret", "postgres://u:a@b/secret@host/db"]
        {
            let error = PostgresStore::open(url, None).expect_err(url);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            let said = format!("{error} {error:?}");
            assert!(!said.contains("secret") && said.contains("expected `postgres://"), "{said}");
        }
    }

    #[test]
    fn schema_of_the_url_is_in_every_statement() {
        let store = PostgresStore::open("postgres://db/shop?schema=my-jobs", None).expect("a URL");
        assert!(store.setup_sql().contains("CREATE SCHEMA \"my-jobs\""), "{}", store.setup_sql());
        assert!(store.statements.look.contains("\"my-jobs\".job_lock"), "{}", store.statements.look);
    }
}
