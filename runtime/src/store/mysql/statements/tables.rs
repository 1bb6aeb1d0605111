//! Sends messages, and creates the tables when they are first needed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::{definitions, reply};
use crate::store::StoreErrorKind;
use crate::store::mysql::connection::{Lane, MysqlConnection, TextRow, TransactionEnding};
use crate::store::mysql::diagnosis;
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::store::net::sql_server::{MAKING, send_despite_conflicts, send_with_tables};

/// Number of attempts to create tables beside other servers.
const CREATIONS: u32 = 10;

#[derive(Clone)]
pub(crate) struct MysqlTables {
    pub(crate) connection: MysqlConnection,
    making: Arc<Mutex<()>>,
}

impl MysqlTables {
    pub(crate) fn new(connection: MysqlConnection) -> Self {
        Self { connection, making: Arc::default() }
    }

    /// Sends a message, again after a conflict with another session, and reads its rows.
    pub(crate) async fn ask<T>(
        &self,
        lane: Lane,
        text: &str,
        read: impl Fn(&[TextRow]) -> MysqlResult<T>,
    ) -> MysqlResult<T> {
        let within = self.connection.timeouts.response;
        read(&send_despite_conflicts(within, || self.send(lane, text)).await?)
    }

    /// Sends a message whose answer is not needed. It may get lost with the connection or the runtime.
    pub(crate) fn send_afterwards(&self, text: String) {
        let tables = self.clone();
        tokio::spawn(async move { drop(tables.send(Lane::Write, &text).await) });
    }

    /// Sends a message once; once more if the tables had to be created.
    pub(crate) async fn send(&self, lane: Lane, text: &str) -> MysqlResult<Vec<TextRow>> {
        self.transact(lane, text, None).await
    }

    /// Sends a message that begins a transaction, and the one that ends it.
    pub(crate) async fn transact(
        &self,
        lane: Lane,
        text: &str,
        ending: Option<TransactionEnding>,
    ) -> MysqlResult<Vec<TextRow>> {
        let patience = self.connection.timeouts.response;
        let send = || self.connection.send(lane, text, ending, patience);
        send_with_tables(&self.making, send, || self.make()).await
    }

    /// Every statement may be repeated, and another server may create the same at the same time.
    async fn make(&self) -> MysqlResult<()> {
        let definitions = definitions();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let make = || self.connection.send(Lane::Write, &definitions, None, MAKING);
            match send_despite_conflicts(MAKING, make).await {
                Ok(_) => return Ok(()),
                // Another server is about to create the table to which this one refers.
                Err(error) if error.is_incomplete_table() && attempts < CREATIONS => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(self.explained(error).await),
            }
        }
    }

    /// Returns that the server is too old if it is: what it says about the tables would mislead.
    async fn explained(&self, error: MysqlError) -> MysqlError {
        let version = self.connection.send(Lane::Read, "SELECT VERSION()", None, MAKING).await;
        let too_old =
            |rows: &[TextRow]| reply::text(reply::first(rows).ok()?, 0).ok()?.and_then(diagnosis::too_old);
        match version.ok().as_deref().and_then(too_old) {
            Some(message) => MysqlError::new(StoreErrorKind::Misconfigured, message),
            None => error.during("the tables are missing, and cannot be created"),
        }
    }
}
