//! What the stores on a network share: connections, reconnects, subscriptions, TLS.

#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod connection;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod errors;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod reconnect;
pub(crate) mod subscriptions;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod timeouts;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod tls;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod url;
