//! The proof of the proof: `jobs::testing::store` finds what is wrong with a store, and says which promise it breaks.

mod support;

#[path = "store_kit/faulty.rs"]
mod faulty;

use faulty::{Fault, subject};
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::testing::store::{Need, Subject, contract, random_operations};

/// What a proof panics with, if it does.
async fn complaint(proof: impl Future<Output = ()> + Send + 'static) -> Option<String> {
    let panic = tokio::spawn(proof).await.err()?.into_panic();
    Some(panic.downcast_ref::<String>().expect("a message").clone())
}

/// The promises of the contract that a store breaks.
async fn broken(fault: Fault) -> Vec<String> {
    let complaint = complaint(contract(async move || subject(fault), &[])).await.unwrap_or_default();
    let promises = complaint.lines().filter_map(|line| line.split_once(" is not kept: "));
    promises.map(|(promise, _)| promise.to_owned()).collect()
}

macro_rules! the_contract_catches_a_store_that {
    ($($name:ident: $fault:ident by $promise:ident;)+) => {
        mod the_contract_catches_a_store_that {
            use super::{Fault, broken};
            $(
                #[tokio::test]
                async fn $name() {
                    let broken = broken(Fault::$fault).await;
                    println!("{}", broken.join("\n"));
                    assert!(broken.iter().any(|promise| promise == stringify!($promise)), "{broken:?}");
                }
            )+
        }
    };
}

the_contract_catches_a_store_that! {
    forgets_the_mark: ForgetsTheMark by a_late_server_does_not_rerun_a_finished_tick;
    wins_twice: WinsTwice by a_key_can_be_locked_and_refused_and_released_and_taken_again;
    reads_then_writes: ReadsThenWrites by of_many_servers_that_claim_a_tick_at_once_one_wins;
    starts_early: StartsEarly by an_early_claim_is_told_how_long_to_wait;
    reuses_fences: ReusesFences by fences_strictly_grow;
    replays_with_a_full_ttl: ReplaysWithAFullTtl by a_replayed_claim_wins_again_with_the_same_fence_and_the_remaining_time;
    ignores_a_stranger: IgnoresAStranger by a_strangers_lock_is_held_by_nobody_known;
    forgets_the_pause: ForgetsThePause by a_paused_job_answers_paused;
    extends_an_expired_lease: ExtendsAnExpiredLease by an_extension_is_refused_after_the_expiry;
    heals_nothing: HealsNothing by after_a_wipe_an_extension_restores_lock_mark_and_fence;
    releases_with_a_stale_token: ReleasesWithAStaleToken by a_stale_token_can_neither_extend_nor_release_its_successors_lease;
    loses_the_record: LosesTheRecord by a_release_records_its_run_in_the_same_step;
    keeps_silent_servers: KeepsSilentServers by a_server_that_falls_silent_is_gone;
    shares_namespaces: SharesNamespaces by namespaces_are_separate;
}

#[tokio::test]
async fn a_store_with_nothing_wrong_keeps_the_contract() {
    contract(async || subject(Fault::Nothing), &[]).await;
}

/// How the first of the steps that were answered differently was answered.
async fn difference(fault: Fault) -> String {
    let complaint = complaint(random_operations(subject(fault), 2_000)).await;
    let complaint = complaint.unwrap_or_else(|| panic!("nothing was found: {fault:?}"));
    println!("{complaint}");
    complaint
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_a_lost_mark() {
    let difference = difference(Fault::ForgetsTheMark).await;
    assert!(difference.contains("model: "), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_what_no_promise_is_about() {
    assert_eq!(broken(Fault::ExtendsUnderAnOlderFence).await, Vec::<String>::new());
    let difference = difference(Fault::ExtendsUnderAnOlderFence).await;
    assert!(difference.contains("store: Kept") && difference.contains("model: Lost"), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_nothing_wrong_with_a_store_that_is_right() {
    random_operations(subject(Fault::Nothing), 300).await;
}

fn bare() -> Subject {
    Subject::new(MemoryStore::new(std::sync::Arc::new(SystemClock)))
}

#[tokio::test]
async fn what_cannot_be_proved_must_be_named() {
    let complaint = complaint(contract(async || bare(), &[Need::Namespaces])).await.expect("a complaint");
    let lines: Vec<_> = complaint.lines().collect();
    let [wipe, lock] = lines.as_slice() else { panic!("two complaints: {complaint}") };
    assert!(wipe.contains("Subject::wiped_by") && wipe.contains("Need::Wipe"), "{wipe}");
    assert!(wipe.contains("after_a_wipe_a_release_restores_the_mark"), "{wipe}");
    assert!(lock.contains("Subject::tampered_by") && lock.contains("Need::Lock"), "{lock}");
    assert!(lock.contains("a_strangers_lock_is_held_by_nobody_known"), "{lock}");

    contract(async || bare(), &[Need::Wipe, Need::Lock, Need::Namespaces]).await;
}

#[tokio::test]
async fn what_can_be_proved_must_not_be_left_out() {
    let contract = contract(async || subject(Fault::Nothing), &[Need::Lock]);
    let complaint = complaint(contract).await.expect("a complaint");
    assert!(complaint.contains("Need::Lock") && !complaint.contains("is not kept"), "{complaint}");
}
