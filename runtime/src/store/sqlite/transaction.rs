//! Checks a lease in a transaction of the application.

use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};

use crate::Timestamp;
use crate::lease::finish_error::FinishError;
use crate::lease::transaction::LeaseCheck;
use crate::store::record::columns;
use crate::store::{FenceTable, NotCurrent};

/// Marks the lease as finished, or takes the database's write lock, so that no later one is won before the transaction ends.
pub(crate) fn commit_under(transaction: &Transaction<'_>, check: &LeaseCheck) -> Result<(), FinishError> {
    let FenceTable::Sqlite { namespace } = &check.table else {
        return Err(check.unknown());
    };
    let why = match write(transaction, namespace, check) {
        Ok(1) => return Ok(()),
        Ok(_) => refusal(transaction, namespace, check).unwrap_or_else(FinishError::database),
        Err(error) if is_missing_table(&error) => check.unknown(),
        Err(error) => FinishError::database(error),
    };
    // An error does not end a transaction here: nothing of it may be committed, whatever the caller does with the error.
    drop(transaction.execute_batch("ROLLBACK"));
    Err(why)
}

/// Returns the number of rows that were written.
fn write(transaction: &Transaction<'_>, namespace: &str, check: &LeaseCheck) -> rusqlite::Result<usize> {
    let LeaseCheck { key, fence, finish, .. } = check;
    let token = columns::token(&check.token);
    let Some(finish) = finish else {
        // A write, although nothing changes: only one transaction at a time has the lock for it.
        let sql = "UPDATE job_fence SET fence = fence
            WHERE namespace = ?1 AND job_name = ?2 AND fence = ?3 AND token = ?4";
        return transaction.execute(sql, params![namespace, key, fence, token]);
    };
    let now = Timestamp::now();
    let done_until = finish.done_for.map(|time| (now + time).as_micros());
    let sql = "UPDATE job_fence SET finished_at = ?5, done_until = ?6
        WHERE namespace = ?1 AND job_name = ?2 AND fence = ?3 AND token = ?4 AND finished_at IS NULL";
    transaction.execute(sql, params![namespace, key, fence, token, now.as_micros(), done_until])
}

fn refusal(
    transaction: &Transaction<'_>,
    namespace: &str,
    check: &LeaseCheck,
) -> rusqlite::Result<FinishError> {
    let sql = "SELECT fence = ?3 AND token = ?4 FROM job_fence WHERE namespace = ?1 AND job_name = ?2";
    let values = params![namespace, check.key, check.fence, columns::token(&check.token)];
    let is_newest: Option<bool> = transaction.query_row(sql, values, |row| row.get(0)).optional()?;
    Ok(match is_newest {
        None => check.unknown(),
        Some(false) => check.error(NotCurrent::Superseded),
        Some(true) => check.error(NotCurrent::AlreadyFinished),
    })
}

fn is_missing_table(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(failure, Some(message)) = error else { return false };
    failure.code == ErrorCode::Unknown && message.contains("no such table")
}
