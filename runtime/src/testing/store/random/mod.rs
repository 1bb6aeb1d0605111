//! Random operations, sent to a store and replayed on a plain record: after every step both must be the same.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::{Capability, Subject};

mod replay;
mod sequence;
mod strategies;

/// Sequences mostly wait: for the store's answer, or for a lease to expire.
const AT_A_TIME: u32 = 12;

/// In milliseconds: a sequence that is not the shortest is better than none.
const TIME_TO_SHORTEN: u32 = 20_000;

/// Sends random sequences of a server's messages, and accidents, to a store, and replays every swap on a plain
/// [`Record`](crate::store::Record) with the clock that the store answered. After every step a look and the run and skip
/// records must be those of the record.
///
/// Accidents that the subject has no way to cause do not happen. `JOBS_TEST_SEQUENCES` in the environment overrides the
/// number of sequences. Give the test two threads, `#[tokio::test(flavor = "multi_thread")]`: many sequences run at a time.
///
/// # Panics
///
/// If the store differs from the record, with a short sequence that leads to it. A sequence in which the store was too slow to be
/// compared is replaced by another one: if that happens more often than not, this is an error, too.
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

    let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    println!("{} sequences with {} swaps were replayed", count(&tally.sequences), count(&tally.swaps));
    for need in [Capability::Wipe, Capability::Lock].into_iter().filter(|need| !subject.can(*need)) {
        println!("left out what needs {need}");
    }
}

#[derive(Default)]
struct Tally {
    sequences: AtomicU32,
    swaps: AtomicU32,
    failed: AtomicBool,
}

/// Runs a share of the sequences one after the other, and on a difference searches for the shortest one.
fn work(subject: &Subject, tally: &Tally, sequences: u32) -> Result<(), String> {
    let runtime = tokio::runtime::Handle::current();
    let shrinking = Cell::new(false);
    let config = Config {
        cases: sequences,
        max_global_rejects: sequences,
        max_shrink_iters: 2_000,
        max_shrink_time: TIME_TO_SHORTEN,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&strategies::any(), |steps| {
        if tally.failed.load(Ordering::Relaxed) && !shrinking.get() {
            return Ok(());
        }
        match runtime.block_on(replay::replay(subject, &steps)) {
            Ok(swaps) => {
                tally.sequences.fetch_add(1, Ordering::Relaxed);
                tally.swaps.fetch_add(swaps, Ordering::Relaxed);
                Ok(())
            }
            Err(replay::ReplayError::Unknown) => Err(TestCaseError::reject("the store was too slow")),
            Err(replay::ReplayError::Different(difference)) => {
                tally.failed.store(true, Ordering::Relaxed);
                shrinking.set(true);
                Err(TestCaseError::fail(difference))
            }
        }
    });
    result.map_err(|error| error.to_string())
}
