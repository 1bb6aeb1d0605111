//! Checks a lease in a transaction of the application.

use std::pin::Pin;

use mysql_async::prelude::Queryable;

use super::statements::literals::{name, text};
use crate::lease::transaction::sealed::CommitUnderLease;
use crate::lease::transaction::{AbortFuture, CheckFailure, CheckFuture, LeaseCheck, StatementError};
use crate::store::FenceTable;
use crate::store::record::columns;

/// Number of rows that a statement returned or changed.
type RowCount<'a> = Pin<Box<dyn Future<Output = Result<u64, StatementError>> + Send + 'a>>;

/// A transaction that sends one statement without parameters.
pub(super) trait TextTransaction: Send {
    fn send<'a>(&'a mut self, sql: &'a str) -> RowCount<'a>;
}

/// The server's numbers of a table and of a database that do not exist.
const MISSING: [&str; 2] = ["1146", "1049"];

/// The server's number of a savepoint that does not exist.
const NO_SAVEPOINT: &str = "1305";

impl TextTransaction for mysql_async::Transaction<'_> {
    fn send<'a>(&'a mut self, sql: &'a str) -> RowCount<'a> {
        Box::pin(async move {
            let failed = |error: mysql_async::Error| StatementError {
                code: match &error {
                    mysql_async::Error::Server(error) => Some(error.code.to_string()),
                    _ => None,
                },
                error: error.into(),
            };
            let rows: Vec<mysql_async::Row> = self.query(sql).await.map_err(failed)?;
            Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX).max(self.affected_rows()))
        })
    }
}

impl CommitUnderLease for mysql_async::Transaction<'_> {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(commit_under(self, check))
    }

    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(abort(self))
    }
}

#[cfg(feature = "sqlx")]
impl TextTransaction for sqlx::Transaction<'_, sqlx::MySql> {
    fn send<'a>(&'a mut self, sql: &'a str) -> RowCount<'a> {
        Box::pin(async move {
            let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
            let sent = if sql.starts_with("SELECT") {
                statement
                    .fetch_all(&mut **self)
                    .await
                    .map(|rows| u64::try_from(rows.len()).unwrap_or(u64::MAX))
            } else {
                statement.execute(&mut **self).await.map(|done| done.rows_affected())
            };
            sent.map_err(|error| {
                let server = error.as_database_error();
                let server =
                    server.and_then(|server| server.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
                StatementError { code: server.map(|server| server.number().to_string()), error: error.into() }
            })
        })
    }
}

#[cfg(feature = "sqlx")]
impl CommitUnderLease for sqlx::Transaction<'_, sqlx::MySql> {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(commit_under(self, check))
    }

    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(abort(self))
    }
}

/// Returns a row if the next statement after a transaction begins another one, which hides that the server has ended the first.
const WITHOUT_AUTOCOMMIT: &str = "SELECT 1 FROM DUAL WHERE @@autocommit = 0";

/// Sends a statement, unless the server has ended the transaction: after a deadlock, or a statement that commits by itself, the mark
/// would be committed alone. Outside of a transaction a savepoint is forgotten at once.
async fn in_transaction(transaction: &mut dyn TextTransaction, sql: &str) -> Result<u64, StatementError> {
    transaction.send("SAVEPOINT jobs_finish").await?;
    transaction.send("RELEASE SAVEPOINT jobs_finish").await?;
    transaction.send(sql).await
}

/// Marks the lease as finished, or locks it, so that no later one is won before the transaction ends. An update and a locking read
/// see the newest row at every isolation level.
pub(super) async fn commit_under(
    transaction: &mut dyn TextTransaction,
    check: &LeaseCheck,
) -> Result<(), CheckFailure> {
    let FenceTable::Mysql { database, namespace } = &check.table else { return Err(CheckFailure::NoTable) };
    let table = match database.as_str() {
        "" => "job_fence".to_owned(),
        database => format!("`{}`.job_fence", database.replace('`', "``")),
    };
    let (namespace, name, token) = (text(namespace), name(&check.key), text(&columns::token(&check.token)));
    let is_lease = format!(
        "namespace = {namespace} AND job_name = {name} AND fence = {} AND token = {token}",
        check.fence
    );
    let sql = match check.finish {
        None => format!("SELECT 1 FROM {table} WHERE {is_lease} LOCK IN SHARE MODE"),
        Some(finish) => {
            let done_until = finish.done_for.map_or_else(
                || "NULL".to_owned(),
                |time| format!("UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND", time.as_micros()),
            );
            format!(
                "UPDATE {table} SET finished_at = UTC_TIMESTAMP(6), done_until = {done_until} \
                 WHERE {is_lease} AND finished_at IS NULL"
            )
        }
    };
    if transaction.send(WITHOUT_AUTOCOMMIT).await.is_ok_and(|rows| rows > 0) {
        abort(transaction).await;
        let why = "the session has `autocommit = 0`, with which the end of a transaction cannot be noticed; \
                   set `autocommit = 1`, and begin a transaction for each commit";
        return Err(CheckFailure::Database(why.into()));
    }
    let failure = match in_transaction(transaction, &sql).await {
        Ok(1) => return Ok(()),
        Err(failure) if failure.code.as_deref() == Some(NO_SAVEPOINT) => CheckFailure::NoTransaction,
        Ok(_) => CheckFailure::NotNewest,
        Err(failure) if failure.code.as_deref().is_some_and(|code| MISSING.contains(&code)) => {
            CheckFailure::NoTable
        }
        Err(failure) => CheckFailure::Database(failure.error),
    };
    abort(transaction).await;
    Err(failure)
}

/// An error does not end a transaction here: nothing of it may be committed, and nothing that the caller writes from now on,
/// whatever the caller does with the error.
pub(super) async fn abort(transaction: &mut dyn TextTransaction) {
    for sql in ["ROLLBACK", "START TRANSACTION READ ONLY"] {
        drop(transaction.send(sql).await);
    }
}
