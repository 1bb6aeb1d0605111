//! A swap as one statement.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Statements;
use super::prepared::{Parameter, text};
use super::reply;
use crate::Timestamp;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::connection::PostgresRow as Row;
use crate::store::postgres::errors::Result;
use crate::store::record::columns::{self, AppendedRecords, time};
use crate::store::{FenceChange, KeyState, Record, Swap, SwapReply, Swapped, Version, to_ascii_json};

/// After so many new keys that expire, those that have expired are removed.
const SWEPT_AFTER: u32 = 32;

impl PostgresStore {
    /// Applies a swap, or returns the current look. There is no lock that other programs share, so the expected lock is
    /// ignored.
    ///
    /// A statement that failed because of another session was not applied. It is sent again while the key is as expected.
    pub(crate) async fn swap_or_look(&self, key: &str, swap: &Swap) -> Result<SwapReply> {
        let begun = Instant::now();
        loop {
            let conflict = match self.send_swap(key, swap).await {
                Ok(Some(swapped)) => return Ok(SwapReply::Swapped(swapped)),
                Ok(None) => None,
                Err(error) if error.is_conflict() => Some(error),
                Err(error) => return Err(error),
            };
            let look = self.look_at(key).await?;
            match conflict {
                Some(error) if swap.applies_to(&look) => {
                    if !self.tables.pause(begun).await {
                        return Err(error);
                    }
                }
                _ => return Ok(SwapReply::Changed(look)),
            }
        }
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
            (None, None) => return self.delete_nothing(key, swap).await,
        };
        let applied = applied(&self.tables.send(statement.with(&parameters)).await?, &sent, *nonce)?;
        if applied.is_some() && change.notify {
            // In a second statement: the swap does not see callers that began to wait while it was applied. If this gets lost,
            // they look from time to time.
            let texts = vec![self.namespace.clone(), key.to_owned(), self.payload(key)];
            self.tables.send_afterwards(&self.statements.notify, texts);
        }
        if applied.is_some() && expected.is_none() && expires.is_some() {
            let added = self.added.fetch_add(1, Ordering::Relaxed) + 1;
            if added.is_multiple_of(SWEPT_AFTER) {
                self.sweep();
            }
        }
        Ok(applied)
    }

    /// Deletes a record that is expected not to exist: only the limits are checked.
    async fn delete_nothing(&self, key: &str, swap: &Swap) -> Result<Option<Swapped>> {
        let look = self.look_at(key).await?;
        Ok(match Record::swap(&mut None, None, look.now, swap) {
            SwapReply::Swapped(swapped) if look.version.is_none() => Some(swapped),
            _ => None,
        })
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
