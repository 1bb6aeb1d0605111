//! Reads the rows of answers.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use super::literals::decoded;
use crate::Timestamp;
use crate::store::mysql::PAGE;
use crate::store::mysql::connection::TextRow;
use crate::store::mysql::errors::{MysqlError, MysqlResult, OTHER_TABLES};
use crate::store::record::columns::RUN;
use crate::store::{FinishMark, JobRecord, JobRecords, KeyState, Look, Note, Notes, Page, StoreErrorKind};

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
    let now = clock(row, 1)?;
    let Some(version) = text(row, 2)? else { return Ok(Look::nothing(now)) };
    let version = version.parse().map_err(MysqlError::unreadable)?;
    let state = KeyState::from_json(text(row, 4)?.unwrap_or_default());
    let state = state.map_err(|problem| MysqlError::unreadable(format!("the record {problem}")))?;
    let finished = match text(row, 6)? {
        None => None,
        Some(_) => {
            let done_until = text(row, 7)?.map(|_| clock(row, 7)).transpose()?;
            Some(FinishMark { at: clock(row, 6)?, done_until })
        }
    };
    Ok(Look {
        now,
        version: Some(version),
        fence: column(row, 3)?,
        state: Arc::new(state),
        lock: None,
        finished,
    })
}

/// Reads a page of such rows with a name, without those that cannot be read.
pub(crate) fn page(rows: &[TextRow]) -> MysqlResult<Page> {
    let mut page = Page::default();
    for row in rows {
        match look(row) {
            Ok(look) => page.keys.push((decoded(text(row, 5)?.unwrap_or_default()), look)),
            Err(error) if error.kind == StoreErrorKind::Unreadable => {}
            Err(error) => return Err(error),
        }
    }
    page.next = rows.last().filter(|_| rows.len() == PAGE).map(|row| column(row, 5)).transpose()?;
    Ok(page)
}

/// Reads rows of name, kind and record, newest first.
pub(crate) fn records(rows: &[TextRow]) -> MysqlResult<BTreeMap<String, JobRecords>> {
    let mut found = BTreeMap::<String, JobRecords>::new();
    let problem = |problem| MysqlError::unreadable(format!("a row of job_record {problem}"));
    for row in rows {
        let records = found.entry(decoded(text(row, 0)?.unwrap_or_default())).or_default();
        let json = text(row, 2)?.unwrap_or_default();
        if text(row, 1)? == Some(RUN) {
            records.runs.push(JobRecord::from_json(json).map_err(problem)?);
        } else {
            records.skips.push(JobRecord::from_json(json).map_err(problem)?);
        }
    }
    Ok(found)
}

/// Reads rows of clock, name and content; a single one without a name if there are no notes.
pub(crate) fn notes(rows: &[TextRow]) -> MysqlResult<Notes> {
    let mut notes = Notes { now: now(rows)?, notes: Vec::new() };
    for row in rows {
        if let Some(name) = text(row, 1)? {
            let content: String =
                serde_json::from_str(text(row, 2)?.unwrap_or_default()).map_err(|error| {
                    MysqlError::unreadable(format!("a row of job_note has no JSON string ({error})"))
                })?;
            notes.notes.push(Note { name: decoded(name), text: content.into() });
        }
    }
    notes.notes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(notes)
}

/// Reads the clock in the first row.
pub(crate) fn now(rows: &[TextRow]) -> MysqlResult<Timestamp> {
    clock(first(rows)?, 0)
}

/// Returns the first row of an answer, which must exist.
pub(crate) fn first(rows: &[TextRow]) -> MysqlResult<&TextRow> {
    rows.first().ok_or_else(|| MysqlError::new(StoreErrorKind::Unreachable, "the answer is empty"))
}

/// Reads a clock in microseconds.
pub(crate) fn clock(row: &TextRow, index: usize) -> MysqlResult<Timestamp> {
    column(row, index).map(Timestamp::from_micros)
}

pub(crate) fn column<T: FromStr>(row: &TextRow, index: usize) -> MysqlResult<T> {
    let parsed = text(row, index)?.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| other_tables(index))
}

pub(crate) fn text(row: &TextRow, index: usize) -> MysqlResult<Option<&str>> {
    row.get(index).map(Option::as_deref).ok_or_else(|| other_tables(index))
}

fn other_tables(index: usize) -> MysqlError {
    MysqlError::unreadable(format!("column {} has another type", index + 1)).with_advice(OTHER_TABLES)
}
