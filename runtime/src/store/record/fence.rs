//! The newest lease of a key, as transactions of the application see it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

/// The newest lease of a key, for transactions of the application to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencedLease {
    /// Its fence.
    pub fence: i64,
    /// Its token; empty if it was ended by another one than its holder.
    pub token: Arc<str>,
    /// The mark that its work is committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishMark>,
}

/// The mark that the work of a lease is committed: written by [`Run::finish`](crate::Run::finish) in the transaction of that work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishMark {
    /// Instant of the mark, by the store's clock.
    pub at: Timestamp,
    /// Of work that is done [once](crate::locks::Once): the instant until which it counts as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_until: Option<Timestamp>,
}

/// The newest lease of a key, as the decision to end it has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedLease {
    /// Whether it has a [`FinishMark`].
    pub is_finished: bool,
}

/// Identifies a lease of a key.
#[derive(Clone, Copy, Debug)]
pub struct LeaseId<'a> {
    /// Its token.
    pub token: &'a str,
    /// Its fence.
    pub fence: i64,
}

/// The reason why the work of a lease cannot be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCurrent {
    /// A later lease was won, or the record was deleted.
    Superseded,
    /// The work of this lease was committed before.
    AlreadyFinished,
}

/// The table with the newest lease of each key, on a store that is a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceTable {
    /// On PostgreSQL.
    Postgres {
        /// The schema of the table.
        schema: String,
        /// The namespace of the store.
        namespace: String,
    },
    /// On MySQL or MariaDB.
    Mysql {
        /// The database of the table; that of the transaction's connection if it is empty.
        database: String,
        /// The namespace of the store.
        namespace: String,
    },
    /// On SQLite.
    Sqlite {
        /// The namespace of the store.
        namespace: String,
    },
    /// In a simulation.
    #[doc(hidden)]
    Simulated,
}
