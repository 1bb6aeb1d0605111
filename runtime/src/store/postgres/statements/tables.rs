//! The tables of a server: created when they are first needed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::prepared::text;
use super::{Query, Statement};
use crate::store::postgres::connection::{PostgresConnection, PostgresRow as Row};
use crate::store::postgres::errors::{PostgresError, Result};
use crate::store::postgres::statements;
use crate::util::backoff::up_to;

/// Timeout for the creation of the tables, during which other servers wait.
const MAKING: Duration = Duration::from_secs(10);

/// The longest pause before a statement is sent again.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) connection: PostgresConnection,
    pub(crate) schema: String,
    making: Arc<Mutex<()>>,
}

impl Tables {
    pub(crate) fn new(connection: PostgresConnection, schema: &str) -> Self {
        Self { connection, schema: schema.to_owned(), making: Arc::default() }
    }

    /// Sends a statement, again after a conflict with another session, and reads its rows.
    pub(crate) async fn ask<T>(&self, query: Query<'_>, read: impl Fn(&[Row]) -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        loop {
            match self.send(query).await {
                Err(error) if error.is_conflict() && self.pause(begun).await => {}
                result => return read(&result?),
            }
        }
    }

    /// Sends a statement whose answer is not needed. It may get lost with the connection or the runtime.
    pub(crate) fn send_afterwards(&self, statement: &Statement, texts: Vec<String>) {
        let (tables, statement) = (self.clone(), statement.clone());
        tokio::spawn(async move {
            let parameters: Vec<_> = texts.iter().map(|value| text(value.as_str())).collect();
            drop(tables.ask(statement.with(&parameters), |_| Ok(())).await);
        });
    }

    /// Waits for a random time, so that two sessions do not conflict again. Returns whether there is time for another attempt.
    pub(crate) async fn pause(&self, begun: Instant) -> bool {
        let is_time = begun.elapsed() < self.connection.timeouts.response;
        if is_time {
            tokio::time::sleep(up_to(PAUSE)).await;
        }
        is_time
    }

    /// Sends a statement once; once more if the tables had to be created.
    pub(crate) async fn send(&self, query: Query<'_>) -> Result<Vec<Row>> {
        let is_missing = |result: &Result<_>| result.as_ref().is_err_and(PostgresError::is_missing);
        let mut result = query.rows(&self.connection).await;
        if is_missing(&result) {
            let _one_at_a_time = self.making.lock().await;
            result = query.rows(&self.connection).await;
            if is_missing(&result) {
                let made = self.connection.send(&statements::definitions(&self.schema), MAKING).await;
                made.map_err(|error| error.during("the tables are missing, and cannot be created"))?;
                result = query.rows(&self.connection).await;
            }
        }
        result
    }
}
