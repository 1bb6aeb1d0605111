//! A server's tables: made when they are first needed, and asked until they answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::connection::{Connection, Line};
use super::prepared::Prepared;
use super::schema;
use super::trouble::Trouble;

/// How long the tables may take to make, while other servers wait to find them made.
const MAKING: Duration = Duration::from_secs(10);

/// How long a statement may take that no caller waits for: others wait behind it.
const AFTERWARDS: Duration = Duration::from_millis(250);

/// A parameter and its type: with the types a statement needs no preparation, so that any connection of a pooler will do.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub(super) fn text(value: &(dyn ToSql + Sync)) -> Parameter<'_> {
    (value, Type::TEXT)
}

pub(super) fn number(value: &(dyn ToSql + Sync)) -> Parameter<'_> {
    (value, Type::INT8)
}

/// A statement with its parameters.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) sql: &'a str,
    pub(super) parameters: &'a [Parameter<'a>],
    pub(super) prepared: Option<&'a Prepared<'a>>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(sql: &'a str, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, prepared: None }
    }

    /// The rows are there only once the server has committed: an error at the very end counts.
    async fn send(self, line: &Line) -> Result<Vec<Row>, Error> {
        if let Some(prepared) = self.prepared
            && let Some(rows) = prepared.send(line).await?
        {
            return Ok(rows);
        }
        line.client().query_typed(self.sql, self.parameters).await
    }
}

#[derive(Clone)]
pub(super) struct Tables {
    pub(super) connection: Connection,
    pub(super) schema: String,
    making: Arc<Mutex<()>>,
}

impl Tables {
    pub(super) fn new(connection: Connection, schema: &str) -> Self {
        Self { connection, schema: schema.to_owned(), making: Arc::default() }
    }

    /// Sends a statement, again if another session was in the way, and reads its rows.
    pub(super) async fn ask<T>(
        &self,
        statement: Statement<'_>,
        read: impl Fn(&[Row]) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let attempts = Attempts::new(self.connection.response);
        loop {
            match self.ask_once(statement, &read).await {
                Err(trouble) if trouble.is_conflict() && attempts.pause().await => {}
                result => return result,
            }
        }
    }

    /// The same without a repetition.
    pub(super) async fn ask_once<T>(
        &self,
        statement: Statement<'_>,
        read: impl Fn(&[Row]) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let send = async || {
            let talk = async |line: Arc<Line>| read(&statement.send(&line).await?);
            self.connection.exchange(self.connection.response, talk).await
        };
        let is_missing = |result: &Result<_, Trouble>| result.as_ref().is_err_and(Trouble::is_missing);
        let mut result = send().await;
        if is_missing(&result) {
            let _one_at_a_time = self.making.lock().await;
            result = send().await;
            if is_missing(&result) {
                self.make().await?;
                result = send().await;
            }
        }
        result
    }

    /// Sends a statement whose answer no caller waits for. It is lost with the connection, or with the runtime.
    pub(super) fn send_afterwards(&self, sql: &str, texts: Vec<String>) {
        let (mut tables, sql) = (self.clone(), sql.to_owned());
        tables.connection.response = tables.connection.response.min(AFTERWARDS);
        tokio::spawn(async move {
            let parameters: Vec<_> = texts.iter().map(|value| text(value)).collect();
            drop(tables.ask(Statement::new(&sql, &parameters), |_| Ok(())).await);
        });
    }

    async fn make(&self) -> Result<(), Trouble> {
        let definitions = schema::definitions(&self.schema);
        let send = async |line: Arc<Line>| Ok(line.client().batch_execute(&definitions).await?);
        let made = self.connection.exchange(MAKING, send).await;
        made.map_err(|trouble| trouble.amid("the tables are missing, and cannot be made"))
    }
}

/// Repetitions within a limited time.
pub(super) struct Attempts {
    begun: Instant,
    limit: Duration,
}

impl Attempts {
    pub(super) fn new(limit: Duration) -> Self {
        Self { begun: Instant::now(), limit }
    }

    /// Waits for a random time, so that two sessions do not get into each other's way again and again. Returns whether
    /// there is time for another attempt.
    pub(super) async fn pause(&self) -> bool {
        if self.begun.elapsed() >= self.limit {
            return false;
        }
        let jitter = Uuid::new_v4().as_bytes()[0];
        tokio::time::sleep(Duration::from_micros(200 * u64::from(jitter))).await;
        true
    }
}
