//! Reads the rows of answers.

use super::literals::decoded;
use crate::Timestamp;
use crate::store::mysql::PAGE;
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::store::net::sql_rows;
pub(crate) use crate::store::net::sql_rows::{TextRow, clock, column, text};
use crate::store::{Look, Page, StoreErrorKind};

/// Refuses the answer of a server that takes no writes from all users. Users with a right for it could write.
pub(crate) fn check_primary(row: &TextRow, index: usize) -> MysqlResult<()> {
    match text(row, index)? {
        Some("0" | "OFF") => Ok(()),
        _ => Err(MysqlError::not_primary()),
    }
}

/// Reads a row of `read_only`, clock, version, fence, state, another column, and the two of a mark.
pub(crate) fn look(row: &TextRow) -> MysqlResult<Look> {
    check_primary(row, 0)?;
    Ok(sql_rows::look(row)?)
}

/// Reads a page of such rows with a name.
pub(crate) fn page(rows: &[TextRow]) -> MysqlResult<Page> {
    sql_rows::page(rows, PAGE, look, decoded)
}

/// Reads the clock in the first row.
pub(crate) fn now(rows: &[TextRow]) -> MysqlResult<Timestamp> {
    Ok(clock(first(rows)?, 0)?)
}

/// Returns the first row of an answer, which must exist.
pub(crate) fn first(rows: &[TextRow]) -> MysqlResult<&TextRow> {
    rows.first().ok_or_else(|| MysqlError::new(StoreErrorKind::Unreachable, "the answer is empty"))
}
