//! Reads the rows of answers.

use crate::Timestamp;
use crate::store::net::sql_rows;
pub(crate) use crate::store::net::sql_rows::{TextRow as Row, column, optional, text};
use crate::store::postgres::PAGE;
use crate::store::postgres::errors::{PostgresError, Result};
use crate::store::{Look, Page, StoreErrorKind};

/// Reads a row of recovery, clock, version, fence, state, another column, and the two of a mark.
fn look(row: &Row) -> Result<Look> {
    if is_true(row, 0)? {
        return Err(PostgresError::new(
            StoreErrorKind::Refused,
            "the server is a standby, and cannot grant leases: point the URL to the primary",
        ));
    }
    Ok(sql_rows::look(row)?)
}

/// Reads the same row, and checks the key in its sixth column: a pooler may mix up answers.
pub(crate) fn look_at(rows: &[Row], key: &str) -> Result<Look> {
    let row = first(rows)?;
    check_echo(row, 5, key)?;
    look(row)
}

/// Reads a page of such rows.
pub(crate) fn page(rows: &[Row]) -> Result<Page> {
    sql_rows::page(rows, PAGE, look, str::to_owned)
}

/// Returns the first row of an answer, which must exist.
pub(crate) fn first(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(mixed_up)
}

/// The error for an answer to another statement than the one that was sent.
pub(crate) fn mixed_up() -> PostgresError {
    PostgresError::new(
        StoreErrorKind::Unreachable,
        "the answer is for another statement: a pooler has mixed up two",
    )
}

/// Reads the clock in the first row.
pub(crate) fn now(rows: &[Row]) -> Result<Timestamp> {
    Ok(sql_rows::clock(first(rows)?, 0)?)
}

/// Refuses an answer that does not repeat what was sent with its statement.
pub(crate) fn check_echo(row: &Row, index: usize, sent: &str) -> Result<()> {
    if text(row, index).is_ok_and(|echo| echo == Some(sent)) { Ok(()) } else { Err(mixed_up()) }
}

pub(crate) fn is_true(row: &Row, index: usize) -> Result<bool> {
    Ok(text(row, index)? == Some("t"))
}
