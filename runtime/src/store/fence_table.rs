//! The table of a database in which transactions of the application check leases.

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
}
