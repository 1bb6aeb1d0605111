//! Connections of the application's pool: each request borrows one, and leaves its session as it was.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use mysql_async::{Conn, Pool};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::{COMMIT, Exchange, Lane, MessageConnection, ROLLBACK, TextRow};
use crate::store::StoreErrorKind;
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::store::net::borrowed::{
    ALL_IN_USE, Borrowed, PooledConnection, RequestFailure, TASK_ENDED, request,
};
use crate::store::net::timeouts::Timeouts;

/// The first statement fails inside a transaction that the application has not ended: the message would be committed or undone
/// with it. Otherwise it applies to the next transaction only. The others save the session's variables, and set what the
/// statements depend on.
const BEFORE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET @jobs_sql_mode = @@SESSION.sql_mode, @jobs_completion_type = @@SESSION.completion_type,
      @jobs_sql_safe_updates = @@SESSION.sql_safe_updates, @jobs_sql_select_limit = @@SESSION.sql_select_limit,
      @jobs_foreign_key_checks = @@SESSION.foreign_key_checks, @jobs_unique_checks = @@SESSION.unique_checks,
      @jobs_innodb_lock_wait_timeout = @@SESSION.innodb_lock_wait_timeout,
      @jobs_lock_wait_timeout = @@SESSION.lock_wait_timeout, @jobs_wait_timeout = @@SESSION.wait_timeout;
    SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', completion_type = 0, sql_safe_updates = 0,
      sql_select_limit = 18446744073709551615, foreign_key_checks = 1, unique_checks = 1, innodb_lock_wait_timeout = 1,
      lock_wait_timeout = 1; ";

/// Follows `COMMIT` or `ROLLBACK`. Restores the variables, and removes those that a request has set.
const AFTER: &str = " AND NO CHAIN NO RELEASE;
    SET SESSION sql_mode = @jobs_sql_mode, completion_type = @jobs_completion_type,
      sql_safe_updates = @jobs_sql_safe_updates, sql_select_limit = @jobs_sql_select_limit,
      foreign_key_checks = @jobs_foreign_key_checks, unique_checks = @jobs_unique_checks,
      innodb_lock_wait_timeout = @jobs_innodb_lock_wait_timeout, lock_wait_timeout = @jobs_lock_wait_timeout,
      wait_timeout = @jobs_wait_timeout;
    SET @jobs_sql_mode = NULL, @jobs_completion_type = NULL, @jobs_sql_safe_updates = NULL,
      @jobs_sql_select_limit = NULL, @jobs_foreign_key_checks = NULL, @jobs_unique_checks = NULL,
      @jobs_innodb_lock_wait_timeout = NULL, @jobs_lock_wait_timeout = NULL, @jobs_wait_timeout = NULL,
      @now = NULL, @fence = NULL, @finished = NULL, @applied = NULL";

/// Number of callers that may wait for a connection of a `mysql_async` pool.
const SEATS: usize = 16;

/// A pool, and the application's runtime, where its connections live.
#[derive(Clone)]
pub(crate) struct PoolSource {
    pub(crate) pool: ApplicationPool,
    pub(crate) app: Handle,
}

#[derive(Clone)]
pub(crate) enum ApplicationPool {
    MysqlAsync(WaitingRoom),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::MySqlPool),
}

/// A pool of `mysql_async`, and the right to wait for its connections.
///
/// Up to version 0.37 the pool loses a connection, or wakes no other caller, if a caller stops waiting. So each wait is a task that
/// is not cancelled. Only a few may wait, because none of them leaves.
#[derive(Clone)]
pub(crate) struct WaitingRoom {
    pool: Pool,
    seats: Arc<Semaphore>,
}

impl WaitingRoom {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, seats: Arc::new(Semaphore::new(SEATS)) }
    }

    async fn borrow(self) -> MysqlResult<Conn> {
        let Self { pool, seats } = self;
        let seat = seats.acquire_owned().await;
        let waiting = tokio::spawn(async move {
            let borrowed = pool.get_conn().await;
            drop(seat);
            borrowed
        });
        match waiting.await {
            Ok(borrowed) => Ok(borrowed?),
            Err(_) => Err(MysqlError::new(StoreErrorKind::Unreachable, TASK_ENDED)),
        }
    }
}

impl PoolSource {
    /// Sends a message, then its ending, over a connection of the pool.
    pub(super) async fn send(
        &self,
        lane: Lane,
        exchange: Exchange<'_>,
        timeouts: Timeouts,
    ) -> MysqlResult<Vec<TextRow>> {
        let Exchange { text, ending } = exchange;
        let (text, ending) = match (lane, ending) {
            // Without `autocommit` it has begun a transaction.
            (Lane::Read, None) => (format!("{BEFORE}{text}; {COMMIT}{AFTER}"), None),
            (_, Some(ending)) => (format!("{BEFORE}{text}"), Some(ending)),
            (Lane::Write, None) => {
                (format!("{BEFORE}{text}"), Some((|_: &[TextRow]| COMMIT) as super::TransactionEnding))
            }
        };
        let answer = match &self.pool {
            ApplicationPool::MysqlAsync(room) => {
                let borrow = room.clone().borrow();
                request(&self.app, timeouts, borrow, move |lent| talk(lent, text, ending)).await
            }
            #[cfg(feature = "sqlx")]
            ApplicationPool::Sqlx(pool) => {
                let pool = pool.clone();
                let borrow = async move { Ok(pool.acquire().await?) };
                request(&self.app, timeouts, borrow, move |lent| talk(lent, text, ending)).await
            }
        };
        answer.map_err(|failure| match failure {
            RequestFailure::NotLent => {
                MysqlError::timed_out("no connection was lent", timeouts.connect).with_advice(ALL_IN_USE)
            }
            RequestFailure::Unanswered => MysqlError::timed_out("no answer", timeouts.response),
            RequestFailure::TaskEnded => MysqlError::new(StoreErrorKind::Unreachable, TASK_ENDED),
            RequestFailure::Error(error) => error,
        })
    }
}

async fn talk<C: MessageConnection + PooledConnection>(
    mut connection: Borrowed<C>,
    text: String,
    ending: Option<super::TransactionEnding>,
) -> MysqlResult<Vec<TextRow>> {
    let result = Exchange { text: &text, ending }.over(&mut *connection, AFTER).await;
    let is_as_before = match &result {
        Ok(_) => true,
        // The statements after the one that failed were not executed.
        Err(error) if error.is_answer() => connection.query(&format!("{ROLLBACK}{AFTER}")).await.is_ok(),
        Err(_) => false,
    };
    if is_as_before {
        connection.give_back();
    }
    result
}

impl PooledConnection for Conn {
    fn discard(self) {
        // Marks the connection as closed, and sends a farewell if it can. Then its pool drops it. To wait would be to wait for the
        // statement that is in progress.
        let _ended = pin!(self.disconnect()).poll(&mut Context::from_waker(Waker::noop()));
    }
}
