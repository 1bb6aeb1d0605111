//! Reads the rows of answers.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use crate::Timestamp;
use crate::store::postgres::PAGE;
use crate::store::postgres::connection::PostgresRow as Row;
use crate::store::postgres::errors::{OTHER_TABLES, PostgresError, Result};
use crate::store::record::columns::RUN;
use crate::store::{
    FinishMark, JobRecord, JobRecords, KeyState, Look, Note, Notes, Page, StoreErrorKind, Version,
};

/// Reads a row of recovery, clock, version, fence, state, another column, and the two of a mark.
pub(crate) fn look(row: &Row) -> Result<Look> {
    if is_true(row, 0)? {
        return Err(PostgresError::new(
            StoreErrorKind::Refused,
            "the server is a standby, and cannot grant leases: point the URL to the primary",
        ));
    }
    let now = clock(row, 1)?;
    let Some(version) = text(row, 2)? else { return Ok(Look::nothing(now)) };
    let version: Version = version.parse().map_err(unreadable)?;
    let state = KeyState::from_json(text(row, 4)?.unwrap_or_default());
    let state = state.map_err(|problem| unreadable(format!("the record {problem}")))?;
    let finished = finish_mark(row)?;
    Ok(Look {
        now,
        version: Some(version),
        fence: column(row, 3)?,
        state: Arc::new(state),
        lock: None,
        finished,
    })
}

/// Reads the mark of a transaction in the seventh and eighth column.
fn finish_mark(row: &Row) -> Result<Option<FinishMark>> {
    let Some(at) = optional(row, 6)?.map(Timestamp::from_micros) else { return Ok(None) };
    Ok(Some(FinishMark { at, done_until: optional(row, 7)?.map(Timestamp::from_micros) }))
}

/// Reads the same row, and checks the key in its sixth column: a pooler may mix up answers.
pub(crate) fn look_at(rows: &[Row], key: &str) -> Result<Look> {
    let row = first(rows)?;
    check_echo(row, 5, key)?;
    look(row)
}

/// Reads a page of such rows, without those that cannot be read.
pub(crate) fn page(rows: &[Row]) -> Result<Page> {
    let mut page = Page::default();
    for row in rows {
        match look(row) {
            Ok(look) => page.keys.push((column(row, 5)?, look)),
            Err(error) if error.kind == StoreErrorKind::Unreadable => {}
            Err(error) => return Err(error),
        }
    }
    let is_full = i64::try_from(rows.len()) == Ok(PAGE);
    page.next = rows.last().filter(|_| is_full).map(|row| column(row, 5)).transpose()?;
    Ok(page)
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

/// Reads rows of key, kind and record, newest first.
pub(crate) fn records(rows: &[Row]) -> Result<BTreeMap<String, JobRecords>> {
    let mut found = BTreeMap::<String, JobRecords>::new();
    for row in rows {
        add_record(found.entry(text(row, 0)?.unwrap_or_default().to_owned()).or_default(), row)?;
    }
    Ok(found)
}

/// Adds the record of a row whose kind is in the second column, and whose record is in the third one.
fn add_record(records: &mut JobRecords, row: &Row) -> Result<()> {
    let json = text(row, 2)?.unwrap_or_default();
    let problem = |problem| unreadable(format!("a row of job_record {problem}"));
    if text(row, 1)? == Some(RUN) {
        records.runs.push(JobRecord::from_json(json).map_err(problem)?);
    } else {
        records.skips.push(JobRecord::from_json(json).map_err(problem)?);
    }
    Ok(())
}

/// Reads rows of clock, name and content; a single one without a name if there are no notes.
pub(crate) fn notes(rows: &[Row]) -> Result<Notes> {
    let mut notes = Notes::default();
    for row in rows {
        notes.now = clock(row, 0)?;
        if let Some(name) = optional(row, 1)? {
            let content: String = serde_json::from_str(text(row, 2)?.unwrap_or_default())
                .map_err(|error| unreadable(format!("a row of job_note has no JSON string ({error})")))?;
            notes.notes.push(Note { name, text: content.into() });
        }
    }
    Ok(notes)
}

/// Reads the clock in the first row.
pub(crate) fn now(rows: &[Row]) -> Result<Timestamp> {
    clock(first(rows)?, 0)
}

/// Reads a clock in microseconds.
fn clock(row: &Row, index: usize) -> Result<Timestamp> {
    column(row, index).map(Timestamp::from_micros)
}

/// Refuses an answer that does not repeat what was sent with its statement.
pub(crate) fn check_echo(row: &Row, index: usize, sent: &str) -> Result<()> {
    if text(row, index).is_ok_and(|echo| echo == Some(sent)) { Ok(()) } else { Err(mixed_up()) }
}

pub(crate) fn is_true(row: &Row, index: usize) -> Result<bool> {
    Ok(text(row, index)? == Some("t"))
}

pub(crate) fn column<T: FromStr>(row: &Row, index: usize) -> Result<T> {
    optional(row, index)?.ok_or_else(|| other_tables(index))
}

/// Reads a column; `None` for NULL.
pub(crate) fn optional<T: FromStr>(row: &Row, index: usize) -> Result<Option<T>> {
    text(row, index)?.map(|text| text.parse().map_err(|_| other_tables(index))).transpose()
}

pub(crate) fn text(row: &Row, index: usize) -> Result<Option<&str>> {
    row.get(index).map(Option::as_deref).ok_or_else(|| other_tables(index))
}

fn other_tables(index: usize) -> PostgresError {
    unreadable(format!("column {} has another type", index + 1)).with_advice(OTHER_TABLES)
}

fn unreadable(problem: String) -> PostgresError {
    PostgresError::new(StoreErrorKind::Unreadable, problem)
}
