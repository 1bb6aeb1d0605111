//! The command line `jobsctl`: the real program, against real stores and running servers.

mod dashboard;
mod errors;
mod exporter;
mod kit;
mod many_jobs;
mod on_every_store;
mod plan;
mod watch;
