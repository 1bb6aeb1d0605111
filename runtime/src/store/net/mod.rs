//! Shared by the stores on a network: connections, reconnects, batches of looks, subscriptions, timeouts, TLS.

#[cfg(any(feature = "mysql", feature = "postgres"))]
#[cfg_attr(
    not(any(feature = "mysql", feature = "sqlx")),
    allow(dead_code, reason = "deadpool has its own way")
)]
pub(crate) mod borrowed;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod connection;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod errors;
#[cfg(feature = "redis")]
pub(crate) mod look_batch;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod reconnect;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod sql_rows;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod sql_server;
pub(crate) mod subscriptions;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod timeouts;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod tls;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) mod url;
