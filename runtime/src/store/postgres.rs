#![doc = include_str!("../docs/postgres.md")]

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tokio_postgres::Row;

use super::{
    Finding, JobRecords, Listener, Look, Note, Notes, Page, Store, StoreError, StoreFuture, Swap, SwapReply,
    Topic, to_ascii_json,
};
use crate::Timestamp;
pub use source::{Lending, Session, Source};
use statements::Statements;
use tables::{Parameter, Statement, Tables, text};
use trouble::Trouble;

mod address;
mod connection;
#[cfg(feature = "deadpool-postgres")]
mod deadpool;
mod diagnosis;
mod encryption;
mod opening;
mod prepared;
mod reply;
mod schema;
mod source;
mod statements;
mod swap;
mod tables;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
mod values;

/// So many keys are listed in one round trip.
const PAGE: i64 = 1000;

/// Notes that last longer last so long: an instant of today plus this is still a `timestamptz`.
const LONGEST: Duration = Duration::from_secs(10_000 * 365 * 86_400);

/// A store on a PostgreSQL server, reached over one connection that is opened when it is first needed, or over those that
/// an application lends.
pub struct PostgresStore {
    location: String,
    user: Option<String>,
    namespace: String,
    tables: Tables,
    statements: Statements,
    /// How many keys that expire this store has added.
    added: AtomicU32,
}

impl PostgresStore {
    /// How long to wait for a connection, and for the answer to a request. By default 2 s for each host and 1 s, or what
    /// the URL says: `postgres://host/database?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.tables.connection = self.tables.connection.with_timeouts(connect, response);
        self
    }

    /// The SQL that makes the tables, for an administrator to run where the store's own user may not.
    ///
    /// It can be run again and again, and grants the user that the URL names what it needs.
    pub fn setup_sql(&self) -> String {
        schema::script(&self.tables.schema, self.user.as_deref())
    }

    async fn look_at(&self, key: &str) -> Result<Look, Trouble> {
        let parameters = [text(self.namespace.as_str()), text(key)];
        let statement = Statement::frequent(&self.statements.look, &parameters);
        self.tables.ask(statement, |rows| reply::look_at(rows, key)).await
    }

    async fn write_note(&self, topic: Topic, note: &Note, ttl: Duration) -> Result<Timestamp, Trouble> {
        let (topic, content) = (topic.as_str(), to_ascii_json(&&*note.text));
        let micros = i64::try_from(ttl.min(LONGEST).as_micros()).unwrap_or(i64::MAX);
        let parameters = [
            text(self.namespace.as_str()),
            text(topic),
            text(note.name.as_str()),
            text(content.as_str()),
            Parameter::Number(micros),
        ];
        let now = if ttl.is_zero() {
            self.ask(&self.statements.remove_note, &parameters[..3], reply::now).await?
        } else {
            self.ask(&self.statements.put_note, &parameters, reply::now).await?
        };
        self.sweep();
        Ok(now)
    }

    async fn listen_for(&self, key: &str) -> Result<Option<Listener>, Trouble> {
        let listener = self.tables.connection.listen(self.payload(key)).await?;
        if listener.is_some() {
            let parameters = [text(self.namespace.as_str()), text(key)];
            self.ask(&self.statements.await_key, &parameters, |_| Ok(())).await?;
        }
        Ok(listener)
    }

    async fn ask<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        read: impl Fn(&[Row]) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.tables.ask(Statement::new(sql, parameters), read).await
    }

    /// What a notification says: of which key it is.
    fn payload(&self, key: &str) -> String {
        format!("{}/{}/{key}", self.tables.schema, self.namespace)
    }

    /// A step of the trait, with what there is to say about its failure.
    fn step<'a, T>(
        &'a self,
        step: &'static str,
        asking: impl Future<Output = Result<T, Trouble>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            asking.await.map_err(|trouble| {
                let advice = if trouble.is_forbidden() { ADVICE } else { "" };
                let Trouble { kind, words, .. } = trouble;
                StoreError::new(kind, step, &self.location, format!("{words}{advice}"))
            })
        })
    }
}

const ADVICE: &str = "; have an administrator run what `PostgresStore::setup_sql` returns: it makes what is missing, and \
                      grants what is needed";

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
            let after = page.unwrap_or_default();
            let parameters = [text(self.namespace.as_str()), text(after), Parameter::Number(PAGE)];
            self.ask(&self.statements.list, &parameters, reply::page).await
        })
    }

    fn records<'a>(&'a self, key: &'a str) -> StoreFuture<'a, JobRecords> {
        self.step("records", async move {
            let parameters = [text(self.namespace.as_str()), text(key)];
            self.ask(&self.statements.records, &parameters, reply::records).await
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.step("put_note", self.write_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.step("notes", async move {
            let topic = topic.as_str();
            let parameters = [text(self.namespace.as_str()), text(topic)];
            self.ask(&self.statements.notes, &parameters, reply::notes).await
        })
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Listener>> {
        self.step("listen", self.listen_for(key))
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
