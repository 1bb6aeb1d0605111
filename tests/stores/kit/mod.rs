//! Tests of `jobs::testing::store` itself: it finds what is wrong with a store, and names the promise that it breaks.

mod faulty;

use faulty::{Fault, subject};
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::testing::store::{Capability, Subject, contract, prove, random_operations};

/// What a proof panics with, if it does.
async fn complaint(proof: impl Future<Output = ()> + Send + 'static) -> Option<String> {
    let panic = tokio::spawn(proof).await.err()?.into_panic();
    Some(panic.downcast_ref::<String>().expect("a message").clone())
}

/// A correct store keeps the promise, and the faulty one does not.
fn catches(promise: &str, fault: Fault) {
    prove(promise, async || subject(Fault::Nothing));
    let proof = std::panic::catch_unwind(|| prove(promise, async || subject(fault)));
    assert!(proof.is_err(), "{promise} does not catch a store that {fault:?}");
}

macro_rules! the_contract_catches_a_store_that {
    ($($name:ident: $fault:ident by $promise:ident;)+) => {
        mod the_contract_catches_a_store_that {
            use super::{Fault, catches};
            $(
                #[test]
                fn $name() {
                    catches(stringify!($promise), Fault::$fault);
                }
            )+
        }
    };
}

the_contract_catches_a_store_that! {
    ignores_the_version: IgnoresTheVersion by swap_from_an_older_version_is_refused;
    ignores_not_before: IgnoresNotBefore by not_before_is_checked_by_the_stores_clock;
    ignores_not_after: IgnoresNotAfter by not_after_is_checked_by_the_stores_clock;
    ignores_the_lock: IgnoresTheLock by swap_sets_keeps_and_deletes_the_lock;
    ignores_the_expected_lock: IgnoresTheExpectedLock by swap_is_refused_if_the_lock_is_not_the_expected_one;
    counts_versions: CountsVersions by version_is_the_clock_at_the_swap_and_the_nonce;
    lowers_the_fence: LowersTheFence by fence_is_raised_to_at_least_a_number_and_never_lowered;
    takes_the_fence_from_the_look: TakesTheFenceFromTheLook by next_fence_grows_and_is_at_least_the_clock;
    keeps_the_fence_in_seconds: KeepsTheFenceInSeconds by fence_of_a_new_record_is_above_that_of_a_deleted_one;
    keeps_the_fence_in_milliseconds: KeepsTheFenceInMilliseconds by fence_of_a_new_record_is_above_that_of_a_deleted_one;
    reads_the_clock_before_it_waits: ReadsTheClockBeforeItWaits by fences_grow_over_concurrent_deletions_and_creations;
    appends_on_refusal: AppendsOnRefusal by refused_swap_changes_nothing_and_shows_the_key;
    loses_records: LosesRecords by records_are_kept_newest_first;
    keeps_records_of_a_deleted_key: KeepsRecordsOfADeletedKey by deletion_leaves_nothing;
    trims_nothing: TrimsNothing by newest_records_of_each_kind_are_kept;
    reads_then_writes: ReadsThenWrites by one_of_many_concurrent_swaps_from_a_version_is_applied;
    applies_a_swap_twice: AppliesASwapTwice by swap_that_is_repeated_after_a_lost_answer_is_applied_once;
    mixes_up_looks: MixesUpLooks by looks_at_the_same_time_show_their_own_keys;
    shows_an_old_look: ShowsAnOldLook by applied_swap_is_shown_by_the_next_look;
    shares_namespaces: SharesNamespaces by namespaces_have_separate_keys;
    keeps_notes_for_ever: KeepsNotesForEver by note_expires_unless_it_is_renewed;
    mixes_topics: MixesTopics by topics_have_separate_notes;
    lists_one_page: ListsOnePage by list_shows_more_keys_than_a_page_has;
    loses_a_field: LosesAField by state_comes_back_with_every_field;
    changes_text: ChangesText by records_come_back_with_every_field;
    folds_case: FoldsCase by odd_keys_are_separate_keys;
    never_notifies: NeverNotifies by swap_that_notifies_wakes_those_who_listen_to_its_key;
    writes_on_look: WritesOnLook by look_writes_nothing;
}

#[tokio::test]
async fn store_with_nothing_wrong_keeps_the_contract() {
    contract(async || subject(Fault::Nothing), &[]).await;
}

/// The difference that random operations find.
async fn difference(fault: Fault) -> String {
    let complaint = complaint(random_operations(subject(fault), 2_000)).await;
    let complaint = complaint.unwrap_or_else(|| panic!("nothing was found: {fault:?}"));
    println!("{complaint}");
    complaint
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_a_lost_field() {
    let difference = difference(Fault::LosesAField).await;
    assert!(difference.contains("Break") && difference.contains("record: "), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_a_fence_that_goes_down() {
    let difference = difference(Fault::LowersTheFence).await;
    assert!(difference.contains("store:  Swapped"), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_a_swap_that_was_applied_twice() {
    difference(Fault::AppliesASwapTwice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_an_ignored_version() {
    let difference = difference(Fault::IgnoresTheVersion).await;
    assert!(difference.contains("Copy"), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_a_refusal_without_a_reason() {
    let difference = difference(Fault::RefusesWithoutAReason).await;
    assert!(difference.contains("store:  Changed") && difference.contains("it is applied"), "{difference}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_find_nothing_wrong_with_a_correct_store() {
    random_operations(subject(Fault::Nothing), 300).await;
}

fn bare() -> Subject {
    Subject::new(MemoryStore::new(std::sync::Arc::new(SystemClock)))
}

#[tokio::test]
async fn missing_needs_must_be_named() {
    let complaint =
        complaint(contract(async || bare(), &[Capability::Namespaces])).await.expect("a complaint");
    let lines: Vec<_> = complaint.lines().collect();
    let [wipe, lock] = lines.as_slice() else { panic!("two complaints: {complaint}") };
    assert!(wipe.contains("Subject::with_wipe") && wipe.contains("Capability::Wipe"), "{wipe}");
    assert!(wipe.contains("wiped_key_is_like_a_new_one"), "{wipe}");
    assert!(lock.contains("Subject::with_external_access") && lock.contains("Capability::Lock"), "{lock}");
    assert!(lock.contains("foreign_lock_is_shown_with_its_expiry"), "{lock}");

    contract(async || bare(), &[Capability::Wipe, Capability::Lock, Capability::Namespaces]).await;
}

#[tokio::test]
async fn needs_that_are_met_must_not_be_named() {
    let contract = contract(async || subject(Fault::Nothing), &[Capability::Lock]);
    let complaint = complaint(contract).await.expect("a complaint");
    assert!(complaint.contains("Capability::Lock") && !complaint.contains("is not kept"), "{complaint}");
}
