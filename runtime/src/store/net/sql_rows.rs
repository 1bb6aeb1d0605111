//! Reads the rows of SQL servers, as text. The statements of all their stores return the same columns.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use super::sql_server::SqlError;
use crate::Timestamp;
use crate::store::record::columns::RUN;
use crate::store::{FinishMark, JobRecord, JobRecords, KeyState, Look, Note, Notes, Page};

/// The columns of a row.
pub(crate) type TextRow = Vec<Option<String>>;

/// Reads a name out of its column: not every server keeps it as it is.
type Decode = fn(&str) -> String;

/// The error for a row that cannot be read.
pub(crate) enum UnreadableRow {
    /// What was written into a column.
    Content(String),
    /// The number of a column that is missing, or has another type: the table is not this store's.
    Column(usize),
}

impl UnreadableRow {
    /// Returns the problem, with advice about tables of something else.
    pub(crate) fn explain(self, other_tables: &str) -> String {
        match self {
            Self::Content(problem) => problem,
            Self::Column(number) => format!("column {number} has another type: {other_tables}"),
        }
    }
}

type RowResult<T> = Result<T, UnreadableRow>;

/// Reads a row of another column, clock, version, fence, state, another column, and the two of a mark.
pub(crate) fn look(row: &TextRow) -> RowResult<Look> {
    let now = clock(row, 1)?;
    let Some(version) = text(row, 2)? else { return Ok(Look::nothing(now)) };
    let version = version.parse().map_err(UnreadableRow::Content)?;
    let state = KeyState::from_json(text(row, 4)?.unwrap_or_default());
    let state = state.map_err(|problem| UnreadableRow::Content(format!("the record {problem}")))?;
    let finished = match optional(row, 6)?.map(Timestamp::from_micros) {
        None => None,
        Some(at) => Some(FinishMark { at, done_until: optional(row, 7)?.map(Timestamp::from_micros) }),
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

/// Reads a page of such rows with a name in the sixth column, without those that cannot be read.
pub(crate) fn page<E: SqlError + From<UnreadableRow>>(
    rows: &[TextRow],
    full: usize,
    look: impl Fn(&TextRow) -> Result<Look, E>,
    decode: Decode,
) -> Result<Page, E> {
    let mut page = Page::default();
    for row in rows {
        match look(row) {
            Ok(look) => page.keys.push((decode(text(row, 5)?.unwrap_or_default()), look)),
            Err(error) if error.is_unreadable() => {}
            Err(error) => return Err(error),
        }
    }
    page.next = rows.last().filter(|_| rows.len() == full).map(|row| column(row, 5)).transpose()?;
    Ok(page)
}

/// Reads rows of name, kind and record, newest first.
pub(crate) fn records(rows: &[TextRow], decode: Decode) -> RowResult<BTreeMap<String, JobRecords>> {
    let mut found = BTreeMap::<String, JobRecords>::new();
    let problem = |problem| UnreadableRow::Content(format!("a row of job_record {problem}"));
    for row in rows {
        let records = found.entry(decode(text(row, 0)?.unwrap_or_default())).or_default();
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
pub(crate) fn notes(rows: &[TextRow], decode: Decode) -> RowResult<Notes> {
    let mut notes = Notes::default();
    for row in rows {
        notes.now = clock(row, 0)?;
        if let Some(name) = text(row, 1)? {
            let content: String =
                serde_json::from_str(text(row, 2)?.unwrap_or_default()).map_err(|error| {
                    UnreadableRow::Content(format!("a row of job_note has no JSON string ({error})"))
                })?;
            notes.notes.push(Note { name: decode(name), text: content.into() });
        }
    }
    // Servers sort by their own rules.
    notes.notes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(notes)
}

/// Reads a clock in microseconds.
pub(crate) fn clock(row: &TextRow, index: usize) -> RowResult<Timestamp> {
    column(row, index).map(Timestamp::from_micros)
}

pub(crate) fn column<T: FromStr>(row: &TextRow, index: usize) -> RowResult<T> {
    optional(row, index)?.ok_or_else(|| UnreadableRow::Column(index + 1))
}

/// Reads a column; `None` for NULL.
pub(crate) fn optional<T: FromStr>(row: &TextRow, index: usize) -> RowResult<Option<T>> {
    text(row, index)?.map(|text| text.parse().map_err(|_| UnreadableRow::Column(index + 1))).transpose()
}

pub(crate) fn text(row: &TextRow, index: usize) -> RowResult<Option<&str>> {
    row.get(index).map(Option::as_deref).ok_or_else(|| UnreadableRow::Column(index + 1))
}
