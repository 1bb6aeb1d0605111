//! Every store behaves as the model does: random sequences of steps and accidents go to both, the model is
//! told the store's time, and every answer must be the same.
//!
//! `JOBS_TEST_SEQUENCES=100000 cargo test --test model_equivalence` runs more of them.

mod support;

use jobs::testing::store::random_operations;

use support::{file_subject, postgres_subject, subject, topology_subject};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_answers_as_the_model_does() {
    random_operations(subject::redis().await, 3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_behind_sentinels_answers_as_the_model_does() {
    random_operations(topology_subject::sentinel().await, 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cluster_answers_as_the_model_does() {
    random_operations(topology_subject::cluster().await, 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_answers_as_the_model_does() {
    random_operations(subject::memory().await, 2_400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_answer_as_the_model_does() {
    random_operations(file_subject::file().await, 2_400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_model_does() {
    random_operations(postgres_subject::postgres().await, 2_400).await;
}
