//! The tables of a server: created when they are first needed.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::prepared::text;
use super::{Query, Statement};
use crate::store::net::sql_server::{MAKING, send_despite_conflicts, send_with_tables};
use crate::store::postgres::connection::{PostgresConnection, TextRow as Row};
use crate::store::postgres::errors::Result;
use crate::store::postgres::statements;

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
        let within = self.connection.timeouts.response;
        read(&send_despite_conflicts(within, || self.send(query)).await?)
    }

    /// Sends a statement whose answer is not needed. It may get lost with the connection or the runtime.
    pub(crate) fn send_afterwards(&self, statement: &Statement, texts: Vec<String>) {
        let (tables, statement) = (self.clone(), statement.clone());
        tokio::spawn(async move {
            let parameters: Vec<_> = texts.iter().map(|value| text(value.as_str())).collect();
            drop(tables.ask(statement.with(&parameters), |_| Ok(())).await);
        });
    }

    /// Sends a statement once; once more if the tables had to be created.
    pub(crate) async fn send(&self, query: Query<'_>) -> Result<Vec<Row>> {
        send_with_tables(&self.making, || query.rows(&self.connection), || self.make()).await
    }

    async fn make(&self) -> Result<()> {
        let made = self.connection.send(&statements::definitions(&self.schema), MAKING).await;
        made.map_err(|error| error.during("the tables are missing, and cannot be created"))?;
        Ok(())
    }
}
