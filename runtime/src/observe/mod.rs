//! Observability: events, the log, metrics, health and diagnosis.

#[cfg(feature = "dashboard")]
pub mod dashboard;
pub(crate) mod diagnosis;
pub(crate) mod event;
pub(crate) mod finding;
pub(crate) mod fleet;
pub(crate) mod health;
pub(crate) mod hook;
pub(crate) mod log;
#[cfg(feature = "log-tail")]
pub(crate) mod log_tail;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod run_span;
