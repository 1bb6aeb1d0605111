//! Checks a lease in a transaction of the application.

use std::pin::Pin;

use tokio_postgres::error::SqlState;

use super::statements::Statements;
use super::statements::prepared::{Parameter, text};
use crate::lease::transaction::sealed::CommitUnderLease;
use crate::lease::transaction::{AbortFuture, CheckFailure, CheckFuture, LeaseCheck, StatementError};
use crate::store::FenceTable;
use crate::store::record::columns;

/// The end of a text that was sent.
type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), StatementError>> + Send + 'a>>;

/// A transaction that sends one text by the simple protocol: one round trip, over any pooler.
pub(super) trait SimpleTransaction: Send {
    fn send<'a>(&'a mut self, sql: &'a str) -> Sending<'a>;
}

impl SimpleTransaction for tokio_postgres::Transaction<'_> {
    fn send<'a>(&'a mut self, sql: &'a str) -> Sending<'a> {
        Box::pin(async move {
            self.batch_execute(sql).await.map_err(|error| StatementError {
                code: error.code().map(|code| code.code().to_owned()),
                error: error.into(),
            })
        })
    }
}

impl CommitUnderLease for tokio_postgres::Transaction<'_> {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(commit_under(self, check))
    }

    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(abort(self))
    }
}

#[cfg(feature = "deadpool-postgres")]
impl CommitUnderLease for deadpool_postgres::Transaction<'_> {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(commit_under(&mut **self, check))
    }

    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(abort(&mut **self))
    }
}

#[cfg(feature = "sqlx")]
impl SimpleTransaction for sqlx::Transaction<'_, sqlx::Postgres> {
    fn send<'a>(&'a mut self, sql: &'a str) -> Sending<'a> {
        Box::pin(async move {
            let sent = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut **self).await;
            sent.map(drop).map_err(|error| StatementError {
                code: error
                    .as_database_error()
                    .and_then(sqlx::error::DatabaseError::code)
                    .map(|code| code.to_string()),
                error: error.into(),
            })
        })
    }
}

#[cfg(feature = "sqlx")]
impl CommitUnderLease for sqlx::Transaction<'_, sqlx::Postgres> {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(commit_under(self, check))
    }

    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(abort(self))
    }
}

/// Marks the lease as finished, or locks it, so that no later one is won before the transaction ends. The statement fails if it is
/// not the newest lease, and an error aborts the transaction: it cannot be committed, whatever the caller does with the error.
pub(super) async fn commit_under(
    transaction: &mut dyn SimpleTransaction,
    check: &LeaseCheck,
) -> Result<(), CheckFailure> {
    let FenceTable::Postgres { schema, namespace } = &check.table else { return Err(CheckFailure::NoTable) };
    let statements = Statements::of(schema);
    let statement = if check.finish.is_some() { &statements.finish } else { &statements.check_fence };
    let done_for = check.finish.and_then(|finish| finish.done_for);
    let micros = done_for.map(|time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX).to_string());
    let token = columns::token(&check.token);
    let parameters = [
        text(namespace.as_str()),
        text(check.key.as_str()),
        Parameter::Number(check.fence),
        text(token.as_str()),
        text(micros.as_deref()),
    ];
    let sql = statement.with(&parameters).text();
    let sql = sql.map_err(|error| CheckFailure::Database(error.message.into()))?;
    let sent = transaction.send(&format!("{sql}; {}", limit_idle_time(check))).await;
    sent.map_err(|failure| match failure.code.as_deref() {
        Some(code) if code == SqlState::DIVISION_BY_ZERO.code() => CheckFailure::NotNewest,
        Some(code)
            if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME]
                .iter()
                .any(|it| it.code() == code) =>
        {
            CheckFailure::NoTable
        }
        _ => CheckFailure::Database(failure.error),
    })
}

/// An error aborts the transaction.
pub(super) async fn abort(transaction: &mut dyn SimpleTransaction) {
    drop(transaction.send("SELECT 1/0").await);
}

/// The server ends a session that is idle for a ttl before it commits: a stopped process must not keep other servers from the key. A
/// shorter setting of the session stays.
fn limit_idle_time(check: &LeaseCheck) -> String {
    let millis = check.ttl.as_millis().clamp(1, 0x7fff_ffff);
    format!(
        "SELECT set_config(name, CASE WHEN setting::bigint BETWEEN 1 AND {millis} THEN setting ELSE '{millis}' END, true) \
         FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
    )
}
