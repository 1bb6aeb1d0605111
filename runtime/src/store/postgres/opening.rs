//! How a store is made: from a URL, or from connections that the application lends.

use singleton_jobs_policy::check_name;
use tokio::sync::Mutex;

use super::super::tls::Certificates;
use super::super::{StoreError, StoreErrorKind};
use super::connection::Connection;
use super::source::Source;
use super::{PostgresStore, address, encryption};

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
        let store = Self::over(
            Connection::new(address.config, encryption, address.timeouts),
            location,
            user,
            namespace,
        )?;
        match address.schema {
            Some(schema) => store.with_schema(&schema),
            None => Ok(store),
        }
    }

    /// Borrows the application's connections, one for each step.
    pub fn from_source(source: impl Source, namespace: Option<&str>) -> Result<Self, StoreError> {
        let location = source.location();
        Self::over(Connection::lent_by(source), location, None, namespace)
    }

    /// Borrows connections out of the application's pool. Call it inside the application's Tokio runtime, where new ones
    /// are opened.
    ///
    /// A step that waits for one for longer than [the time-out](Self::with_timeouts) fails, and is repeated as after any
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

    fn over(
        connection: Connection,
        location: String,
        user: Option<String>,
        namespace: Option<&str>,
    ) -> Result<Self, StoreError> {
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| misconfigured(format!("namespace: {problem}")))?;
        }
        Ok(Self {
            location,
            user,
            schema: "public".to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            connection,
            ear: super::listen::Ear::new(),
            making: Mutex::default(),
        })
    }

    /// Keeps everything in this schema, which is made if it is not there.
    pub fn with_schema(mut self, schema: &str) -> Result<Self, StoreError> {
        address::check_schema(schema).map_err(misconfigured)?;
        schema.clone_into(&mut self.schema);
        Ok(self)
    }
}

fn misconfigured(cause: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "open", "a PostgreSQL URL", cause)
}
