//! Every store keeps what a plain record would: random sequences of messages and accidents are sent to a store, and every
//! swap is replayed on a record in memory.
//!
//! `JOBS_TEST_SEQUENCES=100000 cargo test --test stores random_replay` runs more of them.

use jobs::testing::store::random_operations;

use support::{file_subject, mysql_subject, postgres_subject, sqlite_subject, subject, topology_subject};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_store_agrees_with_the_reference_record() {
    random_operations(subject::redis().await, 700).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_store_behind_sentinels_agrees_with_the_reference_record() {
    random_operations(topology_subject::sentinel().await, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cluster_store_agrees_with_the_reference_record() {
    random_operations(topology_subject::cluster().await, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_store_agrees_with_the_reference_record() {
    random_operations(subject::memory().await, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_store_agrees_with_the_reference_record() {
    random_operations(file_subject::file().await, 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_store_agrees_with_the_reference_record() {
    random_operations(postgres_subject::postgres().await, 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_store_agrees_with_the_reference_record() {
    random_operations(sqlite_subject::sqlite().await, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_store_agrees_with_the_reference_record() {
    random_operations(mysql_subject::mysql().await, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_store_over_deadpool_agrees_with_the_reference_record() {
    random_operations(postgres_subject::deadpool().await, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_store_over_sqlx_agrees_with_the_reference_record() {
    random_operations(postgres_subject::sqlx().await, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_store_over_mysql_async_agrees_with_the_reference_record() {
    random_operations(mysql_subject::mysql_async().await, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_store_over_sqlx_agrees_with_the_reference_record() {
    random_operations(mysql_subject::sqlx().await, 100).await;
}
