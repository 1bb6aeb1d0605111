//! The requests of the store on its database. Everything here blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::errors::{SqliteError, SqliteResult};
use crate::Timestamp;
use crate::store::record::columns::{self, AppendedRecords, RUN, RecordRow, SKIP, hexadecimal};
use crate::store::{
    Change, FencedLease, FinishMark, JobRecord, JobRecords, KeyState, Look, Note, Notes, Page, Record, Swap,
    SwapReply, Topic, to_ascii_json,
};

/// Number of keys on a page.
const PAGE: usize = 1000;

/// Expired rows that are removed with each new row that expires: more than are added.
const REMOVED_BY_A_NEW_KEY: i64 = 4;
/// Expired rows that are removed with each note.
const REMOVED_BY_A_NOTE: i64 = 100;

/// The requests of one namespace.
pub(super) struct Requests {
    pub(super) namespace: String,
}

impl Requests {
    /// One statement, so version, fence and state are of one commit, the newest.
    pub(super) fn look(&self, database: &Connection, key: &str) -> SqliteResult<Look> {
        let record = self.record(database, key)?;
        Ok(Record::look(record.as_ref(), None, Timestamp::now()))
    }

    /// Has the write lock already, so the clock is read after every wait.
    pub(super) fn swap(
        &self,
        transaction: &Transaction<'_>,
        key: &str,
        swap: &Swap,
    ) -> SqliteResult<SwapReply> {
        let mut record = self.record(transaction, key)?;
        let is_new = record.is_none();
        let now = Timestamp::now();
        let reply = Record::swap(&mut record, None, now, swap);
        if let SwapReply::Swapped(_) = reply {
            match &record {
                None => self.delete(transaction, key)?,
                Some(record) => self.write(transaction, key, record, &swap.change)?,
            }
            if is_new && record.is_some_and(|record| record.state.expires.is_some()) {
                remove_expired(transaction, now, REMOVED_BY_A_NEW_KEY)?;
            }
        }
        Ok(reply)
    }

    fn record(&self, database: &Connection, key: &str) -> SqliteResult<Option<Record>> {
        let sql = format!("{RECORDS} WHERE l.namespace = ?1 AND l.job_name = ?2");
        let row = database.query_row(&sql, [&*self.namespace, key], |row| RecordColumns::of(row, 1));
        let read = |row: RecordColumns| row.read();
        row.optional()?
            .map(read)
            .transpose()
            .map_err(|problem| SqliteError::unreadable(format!("the record {problem}")))
    }

    /// The trigger deletes the records with it.
    fn delete(&self, transaction: &Transaction<'_>, key: &str) -> SqliteResult<()> {
        let sql = "DELETE FROM job_lock WHERE namespace = ?1 AND job_name = ?2";
        transaction.execute(sql, [&*self.namespace, key])?;
        Ok(())
    }

    fn write(
        &self,
        transaction: &Transaction<'_>,
        key: &str,
        record: &Record,
        change: &Change,
    ) -> SqliteResult<()> {
        let Record { version, fence, state, .. } = record;
        let [server, since, until] = columns::holder(state);
        let sql = "INSERT INTO job_lock (namespace, job_name, version, fence, state, server, since, until, expires)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            ON CONFLICT (namespace, job_name) DO UPDATE SET version = excluded.version, fence = excluded.fence,
              state = excluded.state, server = excluded.server, since = excluded.since, until = excluded.until,
              expires = excluded.expires";
        let expires = state.expires.map(Timestamp::as_micros);
        let values = params![
            self.namespace,
            key,
            version.to_string(),
            fence,
            state.to_json(),
            server,
            since,
            until,
            expires
        ];
        transaction.execute(sql, values)?;
        if let Some(token) = columns::newest_token(change) {
            let sql = "INSERT OR REPLACE INTO job_fence (namespace, job_name, fence, token) VALUES (?1, ?2, ?3, ?4)";
            transaction.execute(sql, params![self.namespace, key, fence, token])?;
        }
        let appended = AppendedRecords::of(&change.records, change.keep);
        // Those that stay beside the new ones; a kind that is not appended to is not trimmed.
        for (kind, kept) in [(RUN, appended.runs_kept), (SKIP, appended.skips_kept)] {
            if kept < i64::MAX {
                let sql = "DELETE FROM job_record WHERE id IN (
                    SELECT id FROM job_record WHERE namespace = ?1 AND job_name = ?2 AND kind = ?3
                    ORDER BY id DESC LIMIT -1 OFFSET ?4)";
                transaction.execute(sql, params![self.namespace, key, kind, kept])?;
            }
        }
        for RecordRow { kind, tick, server, started, ended, outcome, error, record } in appended.rows {
            let sql = "INSERT INTO job_record
                (namespace, job_name, kind, tick, server, started, ended, outcome, error, record)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
            let values =
                params![self.namespace, key, kind, tick, server, started, ended, outcome, error, record];
            transaction.execute(sql, values)?;
        }
        Ok(())
    }

    /// Lists a page, which begins after the last key of the previous one.
    pub(super) fn list(&self, database: &Connection, after: Option<&str>) -> SqliteResult<Page> {
        let page = "WHERE l.namespace = ?1 AND (?2 IS NULL OR l.job_name > ?2) ORDER BY l.job_name LIMIT ?3";
        let mut query = database.prepare(&format!("{RECORDS} {page}"))?;
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let rows = query.query_map(params![self.namespace, after, limit], |row| {
            Ok((row.get::<_, String>(0)?, RecordColumns::of(row, 1)?))
        })?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let now = Timestamp::now();
        let next = rows.last().filter(|_| rows.len() == PAGE).map(|(key, _)| key.clone());
        // Records that cannot be read are left out.
        let found = rows.into_iter().filter_map(|(key, row)| Some((key, row.read().ok()?)));
        let looks = found.map(|(key, record)| (key, Record::look(Some(&record), None, now)));
        Ok(Page { keys: looks.collect(), next })
    }

    /// One statement for all keys, which are passed in hexadecimal: JSON in SQLite ends a text at U+0000.
    pub(super) fn records(
        &self,
        database: &Connection,
        keys: &[String],
        newest: usize,
    ) -> SqliteResult<Vec<JobRecords>> {
        let sql = "SELECT job_name, kind, record FROM (
              SELECT id, job_name, kind, record, row_number() OVER (PARTITION BY job_name, kind ORDER BY id DESC) AS age
              FROM job_record WHERE namespace = ?1
                AND job_name IN (SELECT CAST(unhex(value) AS TEXT) FROM json_each(?2)))
            WHERE age <= ?3 ORDER BY id DESC";
        let mut query = database.prepare(sql)?;
        let (named, newest) =
            (keys.iter().map(|key| hexadecimal(key)).collect::<Vec<_>>(), i64::try_from(newest));
        let values = params![self.namespace, to_ascii_json(&named), newest.unwrap_or(i64::MAX)];
        let mut rows = query.query(values)?;
        let mut found = BTreeMap::<String, JobRecords>::new();
        let unreadable = |problem| SqliteError::unreadable(format!("a row of job_record {problem}"));
        while let Some(row) = rows.next()? {
            let (kind, json) = (row.get::<_, String>(1)?, row.get::<_, String>(2)?);
            let records = found.entry(row.get(0)?).or_default();
            if kind == RUN {
                records.runs.push(JobRecord::from_json(json).map_err(unreadable)?);
            } else {
                records.skips.push(JobRecord::from_json(json).map_err(unreadable)?);
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned().unwrap_or_default()).collect())
    }

    /// Every server does this every few seconds, so it also removes what has expired.
    pub(super) fn put_note(
        &self,
        transaction: &Transaction<'_>,
        topic: Topic,
        note: &Note,
        ttl: Duration,
    ) -> SqliteResult<Timestamp> {
        let now = Timestamp::now();
        if ttl.is_zero() {
            let sql = "DELETE FROM job_note WHERE namespace = ?1 AND topic = ?2 AND name = ?3";
            transaction.execute(sql, [&*self.namespace, topic.as_str(), &*note.name])?;
        } else {
            let sql = "INSERT INTO job_note (namespace, topic, name, content, expires) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (namespace, topic, name) DO UPDATE SET content = excluded.content, expires = excluded.expires";
            let expires = (now + ttl).as_micros();
            transaction
                .execute(sql, params![self.namespace, topic.as_str(), note.name, &*note.text, expires])?;
        }
        let sql =
            "DELETE FROM job_note WHERE rowid IN (SELECT rowid FROM job_note WHERE expires <= ?1 LIMIT ?2)";
        transaction.execute(sql, [now.as_micros(), REMOVED_BY_A_NOTE])?;
        remove_expired(transaction, now, REMOVED_BY_A_NOTE)?;
        Ok(now)
    }

    pub(super) fn notes(&self, database: &Connection, topic: Topic) -> SqliteResult<Notes> {
        let now = Timestamp::now();
        let sql = "SELECT name, content FROM job_note
            WHERE namespace = ?1 AND topic = ?2 AND expires > ?3 ORDER BY name";
        let mut query = database.prepare(sql)?;
        let rows = query.query_map(params![self.namespace, topic.as_str(), now.as_micros()], |row| {
            Ok(Note { name: row.get(0)?, text: row.get::<_, String>(1)?.into() })
        })?;
        Ok(Notes { now, notes: rows.collect::<rusqlite::Result<_>>()? })
    }

    /// Of these keys, those whose states cannot be read.
    pub(super) fn unreadable(&self, database: &Connection, keys: &[String]) -> SqliteResult<Vec<String>> {
        let mut unreadable = Vec::new();
        for key in keys {
            match self.record(database, key) {
                Err(error) if error.kind == crate::store::StoreErrorKind::Unreadable => {
                    unreadable.push(key.clone());
                }
                result => drop(result?),
            }
        }
        Ok(unreadable)
    }
}

/// Removes rows that have expired, in the transaction that compares their expiry with the clock.
fn remove_expired(transaction: &Transaction<'_>, now: Timestamp, most: i64) -> SqliteResult<()> {
    let sql = "DELETE FROM job_lock WHERE rowid IN (
        SELECT l.rowid FROM job_lock l LEFT JOIN job_fence f ON f.namespace = l.namespace AND f.job_name = l.job_name
        WHERE l.expires <= ?1 AND coalesce(f.done_until, 0) <= ?1 ORDER BY l.expires LIMIT ?2)";
    transaction.execute(sql, [now.as_micros(), most])?;
    Ok(())
}

/// Selects names and records, each with the mark of a transaction that committed the work of its newest lease.
const RECORDS: &str =
    "SELECT l.job_name, l.version, l.fence, l.state, f.finished_at, f.done_until FROM job_lock l
    LEFT JOIN job_fence f ON f.namespace = l.namespace AND f.job_name = l.job_name AND f.fence = l.fence";

/// The columns of a record.
struct RecordColumns {
    version: String,
    fence: i64,
    state: String,
    finished_at: Option<i64>,
    done_until: Option<i64>,
}

impl RecordColumns {
    fn of(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            version: row.get(column)?,
            fence: row.get(column + 1)?,
            state: row.get(column + 2)?,
            finished_at: row.get(column + 3)?,
            done_until: row.get(column + 4)?,
        })
    }

    fn read(&self) -> Result<Record, String> {
        let version = self.version.parse()?;
        let state = KeyState::from_json(&self.state).map_err(|problem| problem.to_string())?;
        let done_until = self.done_until.map(Timestamp::from_micros);
        let finished = self.finished_at.map(|at| FinishMark { at: Timestamp::from_micros(at), done_until });
        // Of the lease itself only the mark is needed.
        let lease = finished.map(|_| FencedLease { fence: self.fence, token: Arc::from(""), finished });
        let (state, records) = (Arc::new(state), JobRecords::default());
        Ok(Record { version, fence: self.fence, state, records, lease })
    }
}
