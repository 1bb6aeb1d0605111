//! The promises of `jobs::testing::store`, kept by every store.
//!
//! To add a store, write a function that opens it as a `Subject`, and add a line here and one in `random_replay.rs`. The
//! promises are in `runtime/src/testing/store`, the rules that every store shares in `runtime/src/store/decide/tests`.

use support::{file_subject, mysql_subject, postgres_subject, sqlite_subject, subject, topology_subject};

jobs::store_contract!(memory: subject::memory);
jobs::store_contract!(file: file_subject::file, without lock, notifications);
jobs::store_contract!(sqlite: sqlite_subject::sqlite, without lock, notifications);
jobs::store_contract!(redis: subject::redis);
jobs::store_contract!(redis_of_a_client: subject::redis_client);
jobs::store_contract!(redis_sentinel: topology_subject::sentinel);
jobs::store_contract!(redis_with_replicas: topology_subject::sentinel_with_replicas);
jobs::store_contract!(redis_cluster: topology_subject::cluster);
jobs::store_contract!(postgres: postgres_subject::postgres, without lock);
jobs::store_contract!(postgres_behind_a_pooler: postgres_subject::pooled, without lock, notifications);
jobs::store_contract!(postgres_over_deadpool: postgres_subject::deadpool, without lock, notifications);
jobs::store_contract!(postgres_over_sqlx: postgres_subject::sqlx, without lock, notifications);
jobs::store_contract!(mysql: mysql_subject::mysql, without lock, notifications);
jobs::store_contract!(mysql_over_mysql_async: mysql_subject::mysql_async, without lock, notifications);
jobs::store_contract!(mysql_over_sqlx: mysql_subject::sqlx, without lock, notifications);
