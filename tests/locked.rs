//! The guarantees of functions that are annotated with `#[locked]`.

#[path = "locked/functions.rs"]
mod functions;
#[path = "locked/keys.rs"]
mod keys;
#[path = "locked/kit.rs"]
mod kit;
#[path = "locked/once.rs"]
mod once;
#[path = "locked/waiting.rs"]
mod waiting;
