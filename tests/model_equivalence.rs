//! Every store behaves as the model does: random sequences of steps and accidents go to both, the model is
//! told the store's time, and every answer must be the same.
//!
//! `JOBS_TEST_SEQUENCES=100000 cargo test --test model_equivalence` runs more of them.

mod support;

#[path = "model_equivalence/comparison.rs"]
mod comparison;
#[path = "model_equivalence/likeness.rs"]
mod likeness;
#[path = "model_equivalence/message.rs"]
mod message;
#[path = "model_equivalence/sequence.rs"]
mod sequence;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use comparison::{Verdict, compare};
use sequence::Step;
use support::subject::{self, Subject};
use support::{file_subject, postgres_subject, topology_subject};

/// Sequences mostly wait: for the store's answer, or for a lease to expire.
const AT_A_TIME: u32 = 32;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_answers_as_the_model_does() {
    check(subject::redis().await, 6_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_behind_sentinels_answers_as_the_model_does() {
    check(topology_subject::sentinel().await, 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cluster_answers_as_the_model_does() {
    check(topology_subject::cluster().await, 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_answers_as_the_model_does() {
    check(subject::memory().await, 2_400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_answer_as_the_model_does() {
    check(file_subject::file().await, 2_400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_answers_as_the_model_does() {
    check(postgres_subject::postgres().await, 2_400).await;
}

async fn check(subject: Subject, sequences: u32) {
    let sequences = match std::env::var("JOBS_TEST_SEQUENCES") {
        Ok(number) => number.parse().expect("JOBS_TEST_SEQUENCES is a number"),
        Err(_) => sequences,
    };
    let tally = Arc::new(Tally::default());
    let workers: Vec<_> = (0..AT_A_TIME)
        .map(|_| {
            let (subject, tally) = (subject.clone(), Arc::clone(&tally));
            tokio::task::spawn_blocking(move || work(&subject, &tally, sequences.div_ceil(AT_A_TIME)))
        })
        .collect();
    let mut failures = Vec::new();
    for worker in workers {
        failures.extend(worker.await.expect("no worker panics").err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));

    let (compared, undecided) =
        (tally.compared.load(Ordering::Relaxed), tally.undecided.load(Ordering::Relaxed));
    println!("{compared} sequences compared, {undecided} more left undecided");
    assert!(compared >= sequences, "only {compared} of {sequences} sequences were compared");
    assert!(
        undecided * 5 <= compared,
        "{undecided} sequences undecided beside {compared}: too many to trust"
    );
}

#[derive(Default)]
struct Tally {
    compared: AtomicU32,
    undecided: AtomicU32,
    failed: AtomicBool,
}

/// Runs a share of the sequences one after the other, and on a mismatch looks for the shortest one.
fn work(subject: &Subject, tally: &Tally, sequences: u32) -> Result<(), String> {
    let runtime = tokio::runtime::Handle::current();
    let shrinking = Cell::new(false);
    let config =
        Config { cases: sequences, max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&sequence::any(), |steps| {
        if tally.failed.load(Ordering::Relaxed) && !shrinking.get() {
            return Ok(());
        }
        match runtime.block_on(decide(subject, tally, &steps)) {
            Verdict::Same => Ok(()),
            Verdict::Undecided => Err(TestCaseError::reject("always too close to an expiry")),
            Verdict::Different(difference) => {
                tally.failed.store(true, Ordering::Relaxed);
                shrinking.set(true);
                Err(TestCaseError::fail(difference))
            }
        }
    });
    result.map_err(|error| error.to_string())
}

/// Repeats a sequence of which a step fell too close to an expiry to tell; some always do.
async fn decide(subject: &Subject, tally: &Tally, steps: &[Step]) -> Verdict {
    for _ in 0..5 {
        match compare(subject, steps).await {
            Verdict::Undecided => tally.undecided.fetch_add(1, Ordering::Relaxed),
            decided => {
                tally.compared.fetch_add(1, Ordering::Relaxed);
                return decided;
            }
        };
    }
    Verdict::Undecided
}
