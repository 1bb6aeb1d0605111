//! The store contract: the same promises, kept by every store.
//!
//! To put another store to the test, write a function that opens it as a `Subject`, and add a line here and one in
//! `model_equivalence.rs`. The promises are in `runtime/src/testing/store`.

mod support;

#[path = "stores/memory_clock.rs"]
mod memory_clock;

use support::{file_subject, postgres_subject, subject, topology_subject};

jobs::store_contract!(memory: subject::memory);
jobs::store_contract!(file: file_subject::file);
jobs::store_contract!(redis: subject::redis);
jobs::store_contract!(redis_sentinel: topology_subject::sentinel);
jobs::store_contract!(redis_with_replicas: topology_subject::sentinel_with_replicas);
jobs::store_contract!(redis_cluster: topology_subject::cluster);
jobs::store_contract!(postgres: postgres_subject::postgres);
jobs::store_contract!(postgres_behind_a_pooler: postgres_subject::pooled);
