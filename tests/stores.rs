//! The store contract: the same promises, kept by every store.
//!
//! To put another store to the test, write a function that opens it as a `Subject`, and add a line here and one in
//! `model_equivalence.rs`. The promises are in `runtime/src/testing/store`.

mod support;

#[path = "stores/memory_clock.rs"]
mod memory_clock;

use support::{file_subject, postgres_subject, subject};

jobs::store_contract!(memory: subject::memory);
jobs::store_contract!(file: file_subject::file);
jobs::store_contract!(redis: subject::redis);
jobs::store_contract!(postgres: postgres_subject::postgres);
jobs::store_contract!(postgres_behind_a_pooler: postgres_subject::pooled);
