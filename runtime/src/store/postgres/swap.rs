//! A swap as one statement.

use std::sync::atomic::Ordering;

use tokio_postgres::Row;

use super::super::{Change, FenceChange, Look, Record, Swap, SwapReply, Swapped, Version};
use super::PostgresStore;
use super::reply;
use super::request::{Attempts, Statement, flag, instant, instants, number, text, texts};
use super::trouble::Trouble;
use super::values::{HolderColumns, RecordColumns, time};
use crate::Timestamp;

/// After so many new keys that expire, those that have expired are removed.
const SWEPT_AFTER: u32 = 32;

impl PostgresStore {
    /// Applies a swap, or shows why it cannot be applied.
    ///
    /// A statement that failed because of another session was not applied. It is sent again while the key is as
    /// expected: then the other session has changed nothing either.
    pub(super) async fn swap_or_look(&self, key: &str, swap: &Swap) -> Result<SwapReply, Trouble> {
        let attempts = Attempts::new(self.tables.connection.response());
        if swap.expected_lock.is_some() {
            return self.look_at(key).await.map(SwapReply::Changed);
        }
        loop {
            let conflict = match self.send_swap(key, swap).await {
                Ok(Some(swapped)) => return Ok(SwapReply::Swapped(swapped)),
                Ok(None) => None,
                Err(trouble) if trouble.is_conflict() => Some(trouble),
                Err(trouble) => return Err(trouble),
            };
            let look = self.look_at(key).await?;
            match conflict {
                Some(trouble) if applies(swap, &look) => {
                    if !attempts.pause().await {
                        return Err(trouble);
                    }
                }
                _ => return Ok(SwapReply::Changed(look)),
            }
        }
    }

    async fn send_swap(&self, key: &str, swap: &Swap) -> Result<Option<Swapped>, Trouble> {
        let Change { not_before, not_after, state, fence, records, keep, notify, .. } = &swap.change;
        let expected = swap.expected.map(|version| version.to_string());
        let nonce = format!("{:016x}", swap.nonce);
        let (earliest, latest) =
            (not_before.map_or(i64::MIN, Timestamp::as_micros), not_after.map_or(i64::MAX, Timestamp::as_micros));
        let (next, least) = match *fence {
            FenceChange::Keep => (false, i64::MIN),
            FenceChange::Next => (true, i64::MIN),
            FenceChange::AtLeast(fence) => (false, fence),
        };
        let holder = state.as_deref().map(HolderColumns::of).unwrap_or_default();
        let json = state.as_deref().map(|state| state.to_json());
        let expires = state.as_deref().and_then(|state| state.expires).map(time);
        let appended = RecordColumns::of(records, *keep);

        let mut parameters = vec![
            text(&self.namespace),
            text(&key),
            text(&expected),
            text(&nonce),
            number(&earliest),
            number(&latest),
            flag(&next),
            number(&least),
        ];
        if state.is_some() {
            parameters.extend([
                text(&holder.server),
                instant(&holder.since),
                instant(&holder.until),
                text(&json),
                instant(&expires),
            ]);
        }
        let appends = state.is_some() && !records.is_empty();
        if appends {
            parameters.extend([
                texts(&appended.kinds),
                instants(&appended.ticks),
                texts(&appended.servers),
                instants(&appended.started),
                instants(&appended.ended),
                texts(&appended.outcomes),
                texts(&appended.errors),
                texts(&appended.records),
                number(&appended.runs_kept),
                number(&appended.skips_kept),
            ]);
        }
        let sql = match (&expected, state) {
            (Some(_), Some(_)) if appends => &self.statements.update_and_append,
            (Some(_), Some(_)) => &self.statements.update,
            (None, Some(_)) if appends => &self.statements.insert_and_append,
            (None, Some(_)) => &self.statements.insert,
            (Some(_), None) => &self.statements.delete,
            (None, None) => return self.delete_nothing(key, swap).await,
        };

        let payload = self.payload(key);
        let notified = [text(&self.namespace), text(&key), text(&payload)];
        // A statement of its own behind the swap sees every mark that was set before the swap was committed.
        let then = if *notify {
            Some(Statement { sql: &self.statements.notify, parameters: &notified })
        } else if expected.is_none() && expires.is_some() {
            self.sweep_now_and_then()
        } else {
            None
        };
        let statement = Statement { sql, parameters: &parameters };
        self.tables.ask_once(statement, then, |rows| swapped(&rows, swap.nonce)).await
    }

    /// Deletes a record that is expected not to be there: only the limits count.
    async fn delete_nothing(&self, key: &str, swap: &Swap) -> Result<Option<Swapped>, Trouble> {
        let look = self.look_at(key).await?;
        Ok(match Record::swap(&mut None, look.now, swap) {
            SwapReply::Swapped(swapped) if look.version.is_none() => Some(swapped),
            _ => None,
        })
    }

    fn sweep_now_and_then(&self) -> Option<Statement<'_>> {
        let added = self.added.fetch_add(1, Ordering::Relaxed) + 1;
        added.is_multiple_of(SWEPT_AFTER).then(|| self.sweep())
    }

    /// Removes what has expired, a limited number at a time.
    pub(super) fn sweep(&self) -> Statement<'_> {
        Statement { sql: &self.statements.sweep, parameters: &[] }
    }
}

/// Whether the key is as the swap expects it.
fn applies(swap: &Swap, look: &Look) -> bool {
    let Change { not_before, not_after, .. } = &swap.change;
    look.version == swap.expected
        && not_before.is_none_or(|limit| look.now >= limit)
        && not_after.is_none_or(|limit| look.now <= limit)
}

fn swapped(rows: &[Row], nonce: u64) -> Result<Option<Swapped>, Trouble> {
    let Some(row) = rows.first() else { return Ok(None) };
    let now = reply::clock(row, 0)?;
    Ok(Some(Swapped { now, version: Version { at: now, nonce }, fence: reply::column(row, 1)? }))
}
