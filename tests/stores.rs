//! The store contract: the same promises, kept by every store.
//!
//! To put another store to the test, write a function that opens it as a `Subject` and add its line to
//! `every_store`.

mod support;

#[path = "stores/claims.rs"]
mod claims;
#[path = "stores/healing.rs"]
mod healing;
#[path = "stores/keys.rs"]
mod keys;
#[path = "stores/leases.rs"]
mod leases;
#[path = "stores/marks.rs"]
mod marks;
#[path = "stores/memory_clock.rs"]
mod memory_clock;
#[path = "stores/records.rs"]
mod records;

macro_rules! every_store {
    ($($promises:ident::$promise:ident;)+) => {
        promises!(memory: subject::memory; $($promises::$promise;)+);
        promises!(file: file_subject::file; $($promises::$promise;)+);
        promises!(redis: subject::redis; $($promises::$promise;)+);
    };
}

macro_rules! promises {
    ($store:ident: $module:ident::$open:ident; $($promises:ident::$promise:ident;)+) => {
        mod $store { $(
            #[tokio::test]
            async fn $promise() {
                let subject = super::support::$module::$open().await;
                super::$promises::$promise(&subject).await;
            }
        )+ }
    };
}

every_store! {
    leases::a_key_can_be_locked_and_refused_and_released_and_taken_again;
    leases::two_keys_are_independent;
    leases::an_expired_lease_is_free;
    leases::a_stale_token_can_neither_extend_nor_release_its_successors_lease;
    leases::an_extension_outlives_the_first_ttl_and_can_be_repeated;
    leases::an_extension_is_refused_after_a_release;
    leases::an_extension_is_refused_after_the_expiry;
    leases::a_replayed_claim_wins_again_with_the_same_fence_and_the_remaining_time;
    leases::a_replayed_claim_does_not_win_once_its_lease_is_over;
    leases::an_abandoned_claim_frees_the_key;
    leases::an_abandoned_claim_heals_nothing;
    leases::fences_strictly_grow;

    claims::an_early_claim_is_told_how_long_to_wait;
    claims::a_delayed_tick_is_early_until_its_delay_is_over;
    claims::a_late_claim_is_told_how_late_it_is;
    claims::a_taken_tick_names_its_winner;
    claims::an_older_tick_is_superseded;
    claims::a_mark_in_the_future_answers_ahead;
    claims::a_held_key_names_its_holder_and_the_remaining_time;
    claims::a_strangers_lock_is_held_by_nobody_known;
    claims::a_strangers_lock_without_an_expiry_has_no_remaining_time;
    claims::a_paused_job_answers_paused;
    claims::a_paused_job_can_be_claimed_now;
    claims::now_consumes_no_tick;
    claims::now_is_refused_while_the_key_is_held;

    marks::a_late_server_does_not_rerun_a_finished_tick;
    marks::a_fast_clock_neither_starts_early_nor_burns_later_ticks;
    marks::older_ticks_are_never_run_again;
    marks::a_tick_skipped_as_held_is_skipped_for_all_servers_once;
    marks::a_tick_skipped_as_paused_is_skipped_for_all_servers_once;
    marks::a_queued_tick_starts_when_the_last_run_ends;
    marks::an_unfinished_tick_is_not_taken_over_unasked;
    marks::an_unfinished_tick_is_taken_over_with_the_next_attempt_and_a_higher_fence;
    marks::a_tick_is_taken_over_only_as_often_as_allowed;
    marks::a_finished_tick_is_never_taken_over;
    marks::reset_takes_back_a_mark_ahead_of_the_clock_and_nothing_else;

    healing::a_vanished_lock_is_put_back_by_the_next_extension;
    healing::a_vanished_lock_frees_nobody;
    healing::after_a_wipe_an_extension_restores_lock_mark_and_fence;
    healing::after_a_wipe_a_stranger_who_came_first_keeps_the_lock;
    healing::after_a_wipe_a_successor_with_a_higher_fence_keeps_the_key;
    healing::after_a_wipe_an_expired_lease_is_not_restored;
    healing::after_a_wipe_a_release_restores_the_mark;
    healing::a_strangers_lock_ends_the_lease_and_is_never_touched;
    healing::fences_grow_across_a_wipe;

    records::a_release_records_its_run_in_the_same_step;
    records::a_release_is_recorded_once_however_often_it_is_sent;
    records::a_crashed_run_is_recorded_by_the_next_claim;
    records::an_error_is_recorded_word_for_word;
    records::the_newest_runs_and_skips_are_kept;
    records::nothing_is_remembered_of_an_unknown_key;

    keys::odd_keys_are_keys_of_their_own;
    keys::namespaces_are_separate;
}
