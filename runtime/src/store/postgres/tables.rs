//! A server's tables: made when they are first needed, and asked until they answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::super::StoreErrorKind;
use super::connection::{Connection, Line};
use super::trouble::Trouble;
use super::{prepared, schema};

/// How long the tables may take to make, while other servers wait to find them made.
const MAKING: Duration = Duration::from_secs(10);

/// A parameter, which knows its type: with the types a statement needs no preparation, so that any connection of a pooler
/// will do.
pub(super) enum Parameter<'a> {
    Text(Option<&'a str>),
    Number(i64),
    Texts(&'a [String]),
}

pub(super) fn text<'a>(value: impl Into<Option<&'a str>>) -> Parameter<'a> {
    Parameter::Text(value.into())
}

impl Parameter<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Number(number) => (number, Type::INT8),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "bigint",
            Self::Texts(_) => "text[]",
        }
    }

    /// As a part of a statement's text; `None` if it cannot be one. A string means the same whether
    /// `standard_conforming_strings` is on or off.
    pub(super) fn to_literal(&self) -> Option<String> {
        match self {
            Self::Text(None) => Some("NULL".to_owned()),
            // The text of a statement ends at such a character; as a parameter it is refused with a reason.
            Self::Text(Some(text)) if text.contains('\0') => None,
            Self::Text(Some(text)) => Some(format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))),
            Self::Number(number) => Some(format!("'{number}'")),
            Self::Texts(_) => None,
        }
    }
}

/// A statement with its parameters.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) sql: &'a str,
    pub(super) parameters: &'a [Parameter<'a>],
    /// Whether it is worth being prepared.
    is_frequent: bool,
    /// Whether a lease may rest on it.
    is_swap: bool,
}

impl<'a> Statement<'a> {
    pub(super) fn new(sql: &'a str, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, is_frequent: false, is_swap: false }
    }

    pub(super) fn frequent(sql: &'a str, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, is_frequent: true, is_swap: false }
    }

    pub(super) fn swap(sql: &'a str, parameters: &'a [Parameter<'a>]) -> Self {
        Self { sql, parameters, is_frequent: true, is_swap: true }
    }

    /// The rows are there only once the server has committed: an error at the very end counts.
    async fn send(self, line: &Line) -> Result<Vec<Row>, Error> {
        if self.is_frequent
            && let Some(rows) = prepared::execute(self, line).await?
        {
            return Ok(rows);
        }
        let parameters: Vec<_> = self.parameters.iter().map(Parameter::typed).collect();
        line.client().query_typed(self.sql, &parameters).await
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
            let talk = async |line: Arc<Line>| {
                let rows = statement.send(&line).await?;
                // A commit that waits for a standby and is cancelled is answered as if the standby had it.
                if statement.is_swap && line.is_cancelled() {
                    return Err(Trouble::new(
                        StoreErrorKind::TimedOut,
                        "another statement of the connection took too long and was cancelled, and with it perhaps this one",
                    ));
                }
                read(&rows)
            };
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
        let (tables, sql) = (self.clone(), sql.to_owned());
        tokio::spawn(async move {
            let parameters: Vec<_> = texts.iter().map(|value| text(value.as_str())).collect();
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
