//! A swap as one statement.

use super::Statements;
use super::prepared::{Parameter, text};
use super::reply;
use crate::Timestamp;
use crate::store::net::sql_server;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::connection::TextRow as Row;
use crate::store::postgres::errors::Result;
use crate::store::record::columns::{self, AppendedRecords, time};
use crate::store::{FenceChange, KeyState, Swap, SwapReply, Swapped, Version, to_ascii_json};

impl PostgresStore {
    pub(crate) async fn swap_or_look(&self, key: &str, swap: &Swap) -> Result<SwapReply> {
        let within = self.tables.connection.timeouts.response;
        sql_server::swap_or_look(swap, within, || self.send_swap(key, swap), || self.look_at(key)).await
    }

    /// Returns `None` if the swap was refused.
    async fn send_swap(&self, key: &str, swap: &Swap) -> Result<Option<Swapped>> {
        let Swap { expected, nonce, change, .. } = swap;
        let (expected, sent) = (expected.map(|version| version.to_string()), format!("{nonce:016x}"));
        let not_before = change.not_before.map_or(i64::MIN, Timestamp::as_micros);
        let not_after = change.not_after.map_or(i64::MAX, Timestamp::as_micros);
        let (next, least) = match change.fence {
            FenceChange::Keep => (0_i64, i64::MIN),
            FenceChange::Next => (1, i64::MIN),
            FenceChange::AtLeast(fence) => (0, fence),
        };
        let state = change.state.as_deref();
        let finish_seen = change.ends_lease.map_or(-1, |ended| i64::from(ended.is_finished));
        let token = columns::newest_token(change);
        let [server, since, until] = state.map(columns::holder).unwrap_or_default();
        let (json, expires) = (state.map(KeyState::to_json), state.and_then(|state| state.expires).map(time));
        // Records are trimmed only when some are appended, as in `Record::swap`.
        let appends = state.is_some() && !change.records.is_empty();
        let AppendedRecords { rows, runs_kept, skips_kept } =
            AppendedRecords::of(&change.records, change.keep);
        let rows = to_ascii_json(&rows);

        let mut parameters = Vec::with_capacity(18);
        parameters.extend(self.named(key));
        parameters.extend([expected.as_deref(), Some(&*sent)].map(text));
        parameters.extend([not_before, not_after, next, least, finish_seen].map(Parameter::Number));
        if state.is_some() {
            parameters.push(text(token.as_deref()));
            parameters
                .extend([&server, &since, &until, &json, &expires].map(|column| text(column.as_deref())));
        }
        if appends {
            parameters.push(text(&*rows));
            parameters.extend([runs_kept, skips_kept].map(Parameter::Number));
        }
        let Statements { update, update_and_append, insert, insert_and_append, delete, .. } =
            &self.statements;
        let statement = match (&expected, state) {
            (Some(_), Some(_)) if appends => update_and_append,
            (Some(_), Some(_)) => update,
            (None, Some(_)) if appends => insert_and_append,
            (None, Some(_)) => insert,
            (Some(_), None) => delete,
            (None, None) => return Ok(sql_server::delete_nothing(&self.look_at(key).await?, swap)),
        };
        let applied = applied(&self.tables.send(statement.with(&parameters)).await?, &sent, *nonce)?;
        if applied.is_some() && change.notify {
            // In a second statement: the swap does not see callers that began to wait while it was applied. If this gets lost,
            // they look from time to time.
            let texts = vec![self.namespace.clone(), key.to_owned(), self.payload(key)];
            self.tables.send_afterwards(&self.statements.notify, texts);
        }
        if applied.is_some() && self.added.count(swap) {
            self.sweep();
        }
        Ok(applied)
    }

    /// Removes a limited number of expired rows.
    pub(crate) fn sweep(&self) {
        self.tables.send_afterwards(&self.statements.sweep, Vec::new());
    }
}

/// Reads the answer to a swap; `None` if it was refused. Checks the nonce: a pooler that mixed up two answers must neither
/// grant a lease nor deny one.
fn applied(rows: &[Row], sent: &str, nonce: u64) -> Result<Option<Swapped>> {
    let row = reply::first(rows)?;
    reply::check_echo(row, 0, sent)?;
    let Some(now) = reply::optional(row, 1)?.map(Timestamp::from_micros) else { return Ok(None) };
    Ok(Some(Swapped { now, version: Version { at: now, nonce }, fence: reply::column(row, 2)? }))
}
