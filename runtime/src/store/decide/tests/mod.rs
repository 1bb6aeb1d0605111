//! The rules, proved once: on the memory store, through look, decide and swap.
//!
//! Tokio's clock is paused and the store's clock follows it, so that leases expire without waiting.

use std::sync::Arc;

use singleton_jobs_policy::Timestamp;

use crate::store::ExtendReply;
use crate::store::memory::MemoryStore;
use crate::testing::TestClock;
use crate::testing::store::Subject;
use crate::testing::store::bench::Bench;

mod boundaries;
mod claims;
mod leases;
mod manual_locks;
mod operators;

const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

const LOST: ExtendReply = ExtendReply::Lost { broken_by: None };

/// One key of a memory store of its own.
fn bench() -> Bench {
    Bench::of(&subject())
}

fn subject() -> Subject {
    subject_on(&TestClock::starting_at(START))
}

fn subject_on(clock: &TestClock) -> Subject {
    let store = MemoryStore::new(Arc::new(clock.clone()));
    let same = store.clone();
    Subject::new(store.clone())
        .with_external_access(store)
        .with_namespaces(move |name| same.clone().with_namespace(name))
}
