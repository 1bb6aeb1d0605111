//! Sends messages, and creates the tables when they are first needed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::{definitions, reply};
use crate::store::StoreErrorKind;
use crate::store::mysql::connection::{Lane, MysqlConnection, TextRow, TransactionEnding};
use crate::store::mysql::diagnosis;
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::util::backoff::up_to;

/// Timeout for the creation of the tables, during which other servers wait.
const MAKING: Duration = Duration::from_secs(10);

/// The longest pause before a message is sent again.
const PAUSE: Duration = Duration::from_millis(50);

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
        let begun = Instant::now();
        loop {
            match self.send(lane, text).await {
                Err(error) if error.is_conflict() && self.pause(begun).await => {}
                result => return read(&result?),
            }
        }
    }

    /// Sends a message whose answer is not needed. It may get lost with the connection or the runtime.
    pub(crate) fn send_afterwards(&self, text: String) {
        let tables = self.clone();
        tokio::spawn(async move { drop(tables.send(Lane::Write, &text).await) });
    }

    /// Waits for a random time, so that two sessions do not conflict again. Returns whether there is time for another attempt.
    pub(crate) async fn pause(&self, begun: Instant) -> bool {
        let is_time = begun.elapsed() < self.connection.timeouts.response;
        if is_time {
            tokio::time::sleep(up_to(PAUSE)).await;
        }
        is_time
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
        let is_missing = |result: &MysqlResult<_>| result.as_ref().is_err_and(MysqlError::is_missing);
        let mut result = self.connection.send(lane, text, ending, patience).await;
        if is_missing(&result) {
            let _one_at_a_time = self.making.lock().await;
            result = self.connection.send(lane, text, ending, patience).await;
            if is_missing(&result) {
                self.make().await?;
                result = self.connection.send(lane, text, ending, patience).await;
            }
        }
        result
    }

    /// Every statement may be repeated, and another server may create the same at the same time.
    async fn make(&self) -> MysqlResult<()> {
        let begun = Instant::now();
        loop {
            match self.connection.send(Lane::Write, &definitions(), None, MAKING).await {
                Err(error) if error.is_conflict() && begun.elapsed() < MAKING => {
                    tokio::time::sleep(up_to(PAUSE)).await;
                }
                Ok(_) => return Ok(()),
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
