//! [lent]: crate::guide::stores#connections-of-the-application
//! [permissions]: crate::guide::permissions#postgresql
//! [stores]: crate::guide::stores
#![doc = include_str!("../../docs/postgres.md")]

use std::fmt;
use std::time::Duration;

use singleton_jobs_policy::check_name;

#[cfg(any(feature = "deadpool-postgres", feature = "sqlx"))]
use super::net::borrowed::application;
use super::net::sql_rows::{self, TextRow as Row};
use super::net::sql_server::{self, SweepCounter};
use super::net::tls::Certificates;
use super::{
    FenceTable, Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Subscription, Swap, SwapReply, Topic, to_ascii_json,
};
use crate::Timestamp;
use connection::PostgresConnection;
pub use connection::source::{BorrowFuture, BorrowedConnection, ConnectionSource};
#[cfg(feature = "deadpool-postgres")]
pub use deadpool_postgres;
use errors::Result;
#[cfg(feature = "sqlx")]
pub use sqlx;
use statements::Statements;
use statements::prepared::{Parameter, text};
use statements::reply;
use statements::tables::Tables;
pub use tokio_postgres;

mod address;
mod connection;
mod diagnosis;
mod errors;
mod statements;
mod transaction;

const DEFAULT_SCHEMA: &str = "public";

/// Number of keys on a page.
const PAGE: usize = 1000;

/// Longest life of a note: the present plus this is still a `timestamptz`.
const LONGEST: Duration = Duration::from_secs(10_000 * 365 * 86_400);

/// A store on a PostgreSQL server, over one connection that is opened when it is first needed, or over connections of
/// the application.
pub struct PostgresStore {
    location: String,
    user: Option<String>,
    namespace: String,
    tables: Tables,
    statements: Statements,
    added: SweepCounter,
}

impl PostgresStore {
    /// Opens the store at a URL such as `postgres://user:password@host:5432/database`. Does not connect yet.
    ///
    /// Fleets that share a database need different namespaces, or different schemas.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, Certificates::default())
    }

    /// Opens the store with certificates that are not in files.
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
        let certificates = address.certificates.and(certificates).map_err(misconfigured)?;
        let encryption =
            connection::encryption::prepare(address.sslmode.as_deref(), &certificates, &mut address.config);
        let encryption = encryption.map_err(misconfigured)?;
        let location = address::without_password(&address.config);
        let user = address.config.get_user().map(str::to_owned);
        let connection = PostgresConnection::new(address.config, encryption, address.timeouts);
        let schema = address.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        Self { user, ..Self::over(connection, location, namespace)? }.with_schema(schema)
    }

    /// Opens a store that borrows the application's connections, one for each request.
    pub fn from_source(source: impl ConnectionSource, namespace: Option<&str>) -> Result<Self, StoreError> {
        let location = source.location();
        Self::over(PostgresConnection::lent_by(source), location, namespace)
    }

    /// Opens a store that borrows connections of the application's pool. Call it inside the application's Tokio runtime,
    /// where new connections are opened.
    ///
    /// A request that waits for a connection for longer than the [timeout](Self::with_timeouts) fails, and is repeated as after
    /// any other failure. A job that blocks the application's runtime may lose its lease, because the pool's connections
    /// live there. With a URL the store has a connection on the scheduler's own thread.
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
        let app = application("from_pool").map_err(misconfigured)?;
        Self::from_source(connection::deadpool::DeadpoolSource { pool, app }, namespace)
    }

    /// Opens a store that borrows connections of the application's `sqlx` pool. Call it inside the application's Tokio runtime,
    /// where the requests are sent.
    ///
    /// A request that waits for a connection for longer than the [timeout](Self::with_timeouts) fails, and is repeated as after
    /// any other failure. A job that blocks the application's runtime may lose its lease, because the pool's connections
    /// live there. With a URL the store has a connection on the scheduler's own thread.
    ///
    /// ```no_run
    /// # async fn start(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobs::store::postgres::PostgresStore;
    ///
    /// let store = PostgresStore::from_sqlx(pool, None)?;
    /// let jobs = jobs::builder().store(store).start_all().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlx")]
    pub fn from_sqlx(pool: sqlx::PgPool, namespace: Option<&str>) -> Result<Self, StoreError> {
        let app = application("from_sqlx").map_err(misconfigured)?;
        let source = connection::sqlx::SqlxSource { pool, app };
        let (location, user) = source.location();
        let store = Self::over(PostgresConnection::lent_by_sqlx(source), location, namespace)?;
        Ok(Self { user: Some(user), ..store })
    }

    fn over(
        connection: PostgresConnection,
        location: String,
        namespace: Option<&str>,
    ) -> Result<Self, StoreError> {
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| misconfigured(format!("namespace: {problem}")))?;
        }
        Ok(Self {
            location,
            user: None,
            namespace: namespace.unwrap_or_default().to_owned(),
            tables: Tables::new(connection, DEFAULT_SCHEMA),
            statements: Statements::of(DEFAULT_SCHEMA),
            added: SweepCounter::default(),
        })
    }

    /// Keeps everything in this schema, which is created if it is missing.
    pub fn with_schema(mut self, schema: &str) -> Result<Self, StoreError> {
        address::check_schema(schema).map_err(misconfigured)?;
        schema.clone_into(&mut self.tables.schema);
        self.statements = Statements::of(schema);
        Ok(self)
    }

    /// Sets the timeouts of a connection (by default 2 s for each host) and of a response (1 s). In the URL:
    /// `postgres://host/database?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.tables.connection = self.tables.connection.with_timeouts(connect, response);
        self
    }

    /// Returns the SQL that creates the tables, for an administrator to run where the store's own user may not.
    ///
    /// It may be run repeatedly, and grants the necessary permissions to the user in the URL.
    pub fn setup_sql(&self) -> String {
        statements::script(&self.tables.schema, self.user.as_deref())
    }

    async fn look_at(&self, key: &str) -> Result<Look> {
        let read = |rows: &[Row]| reply::look_at(rows, key);
        self.tables.ask(self.statements.look.with(&self.named(key)), read).await
    }

    async fn write_note(&self, topic: Topic, note: &Note, ttl: Duration) -> Result<Timestamp> {
        let (topic, content) = (topic.as_str(), to_ascii_json(&&*note.text));
        let micros = i64::try_from(ttl.min(LONGEST).as_micros()).unwrap_or(i64::MAX);
        let [namespace, topic] = self.named(topic);
        let parameters = [namespace, topic, text(&*note.name), text(&*content), Parameter::Number(micros)];
        let now = if ttl.is_zero() {
            self.tables.ask(self.statements.remove_note.with(&parameters[..3]), reply::now).await?
        } else {
            self.tables.ask(self.statements.put_note.with(&parameters), reply::now).await?
        };
        self.sweep();
        Ok(now)
    }

    async fn listen_for(&self, key: &str) -> Result<Option<Subscription>> {
        let listener = self.tables.connection.listen(self.payload(key)).await?;
        if listener.is_some() {
            self.tables.ask(self.statements.await_key.with(&self.named(key)), |_| Ok(())).await?;
        }
        Ok(listener)
    }

    /// The first two parameters of a statement: the namespace, and a key or a topic.
    fn named<'a>(&'a self, name: &'a str) -> [Parameter<'a>; 2] {
        [text(&*self.namespace), text(name)]
    }

    /// The payload of a notification, which names the key.
    fn payload(&self, key: &str) -> String {
        format!("{}/{}/{key}", self.tables.schema, self.namespace)
    }

    fn step<'a, T>(
        &'a self,
        step: &'static str,
        asking: impl Future<Output = Result<T>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        sql_server::step(step, &self.location, asking)
    }
}

fn misconfigured(cause: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "open", "a PostgreSQL URL", cause)
}

impl Store for PostgresStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        self.step("look", self.look_at(key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.step("swap", self.swap_or_look(key, swap))
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.step("list", async move {
            let [namespace, after] = self.named(page.unwrap_or_default());
            let parameters = [namespace, after, Parameter::count(PAGE)];
            self.tables.ask(self.statements.list.with(&parameters), reply::page).await
        })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.step("records", async move {
            let named = to_ascii_json(&keys);
            let [namespace, named] = self.named(&named);
            let parameters = [namespace, named, Parameter::count(newest)];
            let statement = self.statements.records.with(&parameters);
            let mut found =
                self.tables.ask(statement, |rows| Ok(sql_rows::records(rows, str::to_owned)?)).await?;
            Ok(keys.iter().map(|key| found.remove(key).unwrap_or_default()).collect())
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.step("put_note", self.write_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.step("notes", async move {
            let notes = |rows: &[Row]| Ok(sql_rows::notes(rows, str::to_owned)?);
            self.tables.ask(self.statements.notes.with(&self.named(topic.as_str())), notes).await
        })
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        self.step("listen", self.listen_for(key))
    }

    fn fence_table(&self) -> Option<FenceTable> {
        let (schema, namespace) = (self.tables.schema.clone(), self.namespace.clone());
        Some(FenceTable::Postgres { schema, namespace })
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        self.step("diagnose", self.findings(jobs))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("location", &self.location)
            .field("schema", &self.tables.schema)
            .finish_non_exhaustive()
    }
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
        assert!(store.statements.look.sql.contains("\"my-jobs\".job_lock"));
    }
}
