//! The guarantees of functions that are annotated with `#[locked]`.

mod functions;
mod keys;
mod kit;
mod once;
mod waiting;
