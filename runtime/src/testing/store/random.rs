//! Random operations, sent to a store and to the model: every answer must be the same.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::{Need, Subject};
use comparison::{Verdict, compare};
use sequence::Step;

mod comparison;
mod likeness;
mod message;
mod sequence;

/// Sequences mostly wait: for the store's answer, or for a lease to expire.
const AT_A_TIME: u32 = 32;

/// In milliseconds: a sequence that is not the shortest is better than none.
const TIME_TO_SHORTEN: u32 = 20_000;

/// Sends random sequences of steps and accidents to a store and to the [model](crate::store::model), which is told the
/// store's time, and compares every answer.
///
/// Accidents that the subject has no hand for do not happen. `JOBS_TEST_SEQUENCES` in the environment overrides the
/// number of sequences. Give the test two threads, `#[tokio::test(flavor = "multi_thread")]`: many sequences go on at a
/// time.
///
/// # Panics
///
/// If an answer differs, with a short sequence that leads to it; and if too many steps fell so close to an expiry that
/// nothing can be said about them.
pub async fn random_operations(subject: Subject, sequences: u32) {
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
    for need in [Need::Wipe, Need::Lock].into_iter().filter(|need| !subject.can(*need)) {
        println!("left out what needs {need}");
    }
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
    let config = Config {
        cases: sequences,
        max_shrink_iters: 2_000,
        max_shrink_time: TIME_TO_SHORTEN,
        failure_persistence: None,
        ..Config::default()
    };
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
