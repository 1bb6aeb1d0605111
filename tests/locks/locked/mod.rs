//! Functions that lock: what a call of them promises.

mod functions;
mod keys;
mod kit;
mod once;
mod waiting;
