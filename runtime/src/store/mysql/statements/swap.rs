//! A swap as one transaction: a message with all of its statements, and one that commits them.
//!
//! The statements of a message are executed one after the other, without another round trip, and each has a clock of its own.
//! The row is locked by the first of them, so the clock in a later one is read after every wait. A new key is inserted
//! first, with an empty version that no other session sees, for the same reason: an insert waits for the end of a
//! transaction that deletes the key, and its fence must not come from before.
//!
//! The server ends the session of a client that does not commit in time: a stopped process must not hold a row.

use std::fmt::Write;

use super::literals::{optional, optional_time, text, time};
use super::{CLOCK, is_key, reply};
use crate::Timestamp;
use crate::store::mysql::MysqlStore;
use crate::store::mysql::connection::{COMMIT, Lane, ROLLBACK, TextRow};
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::store::net::sql_server;
use crate::store::record::columns::{self, AppendedRecords, RUN, RecordRow, SKIP};
use crate::store::{Change, FenceChange, KeyState, StoreErrorKind, Swap, SwapReply, Swapped, Version};

/// Seconds after which the server ends a session that has not committed its swap.
const UNCOMMITTED_FOR: u32 = 2;

impl MysqlStore {
    pub(crate) async fn swap_or_look(&self, key: &str, swap: &Swap) -> MysqlResult<SwapReply> {
        let within = self.tables.connection.timeouts.response;
        sql_server::swap_or_look(swap, within, || self.send_swap(key, swap), || self.look_at(key)).await
    }

    /// Returns `None` if the swap was refused.
    async fn send_swap(&self, key: &str, swap: &Swap) -> MysqlResult<Option<Swapped>> {
        let Swap { expected, nonce, change, .. } = swap;
        if expected.is_none() && change.state.is_none() {
            return Ok(sql_server::delete_nothing(&self.look_at(key).await?, swap));
        }
        let message = message(&self.namespace, key, swap);
        let rows = self.tables.transact(Lane::Write, &message, Some(ending)).await?;
        let applied = applied(&rows, *nonce)?;
        if applied.is_some() && self.added.count(swap) {
            self.sweep();
        }
        Ok(applied)
    }
}

/// Returns the statements of a swap.
fn message(namespace: &str, key: &str, swap: &Swap) -> String {
    let Swap { expected, nonce, change, .. } = swap;
    let is_key = is_key(namespace, key);
    let version = expected.map(|version| version.to_string()).unwrap_or_default();
    let limit = |at: Option<Timestamp>, none: i64| at.map_or(none, Timestamp::as_micros).max(-i64::MAX);
    let (first, last) = (limit(change.not_before, i64::MIN), limit(change.not_after, i64::MAX));
    let mut as_expected =
        format!("{is_key} AND version = '{version}' AND @now >= {first} AND @now <= {last}");
    let fence = match change.fence {
        FenceChange::Keep => "@fence".to_owned(),
        FenceChange::Next => "GREATEST(LEAST(@fence, 9223372036854775806) + 1, @now)".to_owned(),
        FenceChange::AtLeast(fence) => format!("GREATEST(@fence, {})", fence.max(-i64::MAX)),
    };
    let mut sql = format!(
        "SET SESSION wait_timeout = {UNCOMMITTED_FOR}; START TRANSACTION; SET @fence = 0; \
         SELECT fence INTO @fence FROM job_lock WHERE {is_key} FOR UPDATE NOWAIT; "
    );
    if expected.is_none() {
        let (namespace, name) = (text(namespace), super::literals::name(key));
        push(
            &mut sql,
            format_args!(
                "INSERT INTO job_lock (namespace, job_name, version, fence, state) \
                 VALUES ({namespace}, {name}, '', 0, '') ON DUPLICATE KEY UPDATE job_name = job_lock.job_name; "
            ),
        );
    }
    if let (Some(_), Some(ended)) = (expected, change.ends_lease) {
        // Another transaction may be about to commit the work of the lease.
        push(
            &mut sql,
            format_args!(
                "SET @finished = 0; SELECT finished_at IS NOT NULL AND fence = @fence INTO @finished FROM job_fence \
                 WHERE {is_key} FOR UPDATE NOWAIT; "
            ),
        );
        push(&mut as_expected, format_args!(" AND @finished = {}", u8::from(ended.is_finished)));
    }
    push(&mut sql, format_args!("SET @now = {CLOCK}; SET @fence = {fence}; "));
    match &change.state {
        None => push(&mut sql, format_args!("DELETE FROM job_lock WHERE {as_expected}; ")),
        Some(state) => push_update(&mut sql, state, *nonce, &as_expected),
    }
    sql.push_str("SET @applied = ROW_COUNT(); ");
    if let Some(token) = columns::newest_token(change) {
        let (namespace, name, token) = (text(namespace), super::literals::name(key), text(&token));
        push(
            &mut sql,
            format_args!(
                "INSERT INTO job_fence (namespace, job_name, fence, token) \
                 SELECT {namespace}, {name}, @fence, {token} FROM DUAL WHERE @applied = 1 \
                 ON DUPLICATE KEY UPDATE fence = @fence, token = {token}, finished_at = NULL, done_until = NULL; "
            ),
        );
    }
    if change.state.is_some() {
        push_records(&mut sql, namespace, key, change);
    }
    push(&mut sql, format_args!("SELECT '{nonce:016x}', @applied, @now, @fence, @@global.read_only"));
    sql
}

fn push(sql: &mut String, more: std::fmt::Arguments<'_>) {
    sql.write_fmt(more).expect("a string takes every write");
}

fn push_update(sql: &mut String, state: &KeyState, nonce: u64, as_expected: &str) {
    let [server, since, until] = columns::holder(state);
    let (server, since, until) =
        (optional(server.as_deref()), optional_time(since.as_deref()), optional_time(until.as_deref()));
    let json = text(&state.to_json());
    let expires = optional_time(state.expires.map(columns::time).as_deref());
    push(
        sql,
        format_args!(
            "UPDATE job_lock SET version = CONCAT(@now, '-{nonce:016x}'), fence = @fence, server = {server}, \
             since = {since}, `until` = {until}, state = {json}, expires = {expires} WHERE {as_expected}; "
        ),
    );
}

/// Trims to what is to be kept beside the new records, and appends them, if the swap was applied.
fn push_records(sql: &mut String, namespace: &str, key: &str, change: &Change) {
    let appended = AppendedRecords::of(&change.records, change.keep);
    let is_key = is_key(namespace, key);
    for (kind, kept) in [(RUN, appended.runs_kept), (SKIP, appended.skips_kept)] {
        if kept < i64::MAX {
            // The server reads from the table that it deletes from only by way of another one.
            push(
                sql,
                format_args!(
                    "DELETE FROM job_record WHERE @applied = 1 AND {is_key} AND kind = '{kind}' AND id <= (\
                     SELECT id FROM (SELECT id FROM job_record WHERE {is_key} AND kind = '{kind}' \
                     ORDER BY id DESC LIMIT 1 OFFSET {kept}) AS newest_that_goes); "
                ),
            );
        }
    }
    let (namespace, name) = (text(namespace), super::literals::name(key));
    for RecordRow { kind, tick, server, started, ended, outcome, error, record } in &appended.rows {
        let (tick, started, ended) =
            (optional_time(tick.as_deref()), optional_time(started.as_deref()), time(ended));
        let (server, outcome, error, record) =
            (text(server), text(outcome), optional(error.as_deref()), text(record));
        push(
            sql,
            format_args!(
                "INSERT INTO job_record \
                 (namespace, job_name, kind, tick, server, started, ended, outcome, error, record) \
                 SELECT {namespace}, {name}, '{kind}', {tick}, {server}, {started}, {ended}, {outcome}, {error}, {record} \
                 FROM DUAL WHERE @applied = 1; "
            ),
        );
    }
}

/// Commits a swap that was applied; `read_only` is the last column.
fn ending(rows: &[TextRow]) -> &'static str {
    let applied = rows.first().is_some_and(|row| {
        reply::text(row, 1).is_ok_and(|applied| applied == Some("1")) && reply::check_primary(row, 4).is_ok()
    });
    if applied { COMMIT } else { ROLLBACK }
}

/// Reads the answer to a swap; `None` if it was refused.
fn applied(rows: &[TextRow], nonce: u64) -> MysqlResult<Option<Swapped>> {
    let row = reply::first(rows)?;
    if reply::text(row, 0)? != Some(&*format!("{nonce:016x}")) {
        return Err(MysqlError::new(StoreErrorKind::Unreachable, "the answer is for another swap"));
    }
    reply::check_primary(row, 4)?;
    if reply::column::<u64>(row, 1)? != 1 {
        return Ok(None);
    }
    let now = reply::clock(row, 2)?;
    Ok(Some(Swapped { now, version: Version { at: now, nonce }, fence: reply::column(row, 3)? }))
}
