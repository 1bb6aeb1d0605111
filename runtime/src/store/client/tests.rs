use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{KeyMutexes, RequestObserver, StoreClient, UnansweredSwaps, slots_key};
use crate::Timestamp;
use crate::history::RunOutcome;
use crate::lease::store_clock::StoreClock;
use crate::store::memory::MemoryStore;
use crate::store::{Claim, ClaimDecision, ClaimPurpose, Ending, ReleaseReply, RunDetails, StoreError};
use crate::testing::TestClock;

struct Unobserved;

impl RequestObserver for Unobserved {
    fn answered(&self, _step: &'static str) {}
    fn failed(&self, _step: &'static str, _error: &StoreError) {}
}

const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn turn_at_a_semaphore_is_waited_for_no_longer_than_a_request_may_take() {
    let clock = Arc::new(TestClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000)));
    let (store, time) = (MemoryStore::new(clock.clone()), StoreClock::new(clock));
    let semaphore_mutexes = KeyMutexes::default();
    let requests = StoreClient {
        store: &store,
        time: &time,
        semaphore_mutexes: &semaphore_mutexes,
        observer: &Unobserved,
        within: WITHIN,
    };
    let _held_for_ever = semaphore_mutexes.take(&slots_key("semaphore")).await;
    let patience = Instant::now() + 10 * WITHIN;

    let (token, server, ttl) = ("token".into(), "server".into(), 6 * WITHIN);
    let claim = Claim {
        token,
        server,
        ttl,
        what: ClaimPurpose::Slot(1),
        remember: 0,
        details: RunDetails::default(),
    };
    let outstanding = &mut UnansweredSwaps::of(claim.token.clone());
    let claiming = requests.claim("semaphore", &claim, true, outstanding);
    let answer = tokio::time::timeout_at(patience, claiming).await.expect("a claim is answered").unwrap();
    let ClaimDecision::Won(won) = answer.reply.decision else { panic!("it is free") };

    let (lease, end) = (won.lease, Ending::of(RunOutcome::Succeeded, 0));
    let releasing = requests.release("semaphore", &lease, &end, None);
    let answer = tokio::time::timeout_at(patience, releasing).await.expect("a release is answered").unwrap();
    assert_eq!(answer.reply, ReleaseReply::Released);
}

#[tokio::test(start_paused = true)]
async fn turns_at_a_semaphore_are_taken_one_at_a_time() {
    let semaphore_mutexes = KeyMutexes::default();
    let first = semaphore_mutexes.take("semaphore").await;
    assert!(tokio::time::timeout(WITHIN, semaphore_mutexes.take("semaphore")).await.is_err());
    drop(semaphore_mutexes.take("another").await);
    drop(first);
    semaphore_mutexes.take("semaphore").await;
}
