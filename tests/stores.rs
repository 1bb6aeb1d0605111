//! The store contract: the same promises, kept by every store.
//!
//! To put another store to the test, write a function that opens it as a `Subject` and add its line to
//! `every_store`.

mod support;

#[path = "stores/claims.rs"]
mod claims;
#[path = "stores/fleet.rs"]
mod fleet;
#[path = "stores/forgetting.rs"]
mod forgetting;
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
#[path = "stores/missed.rs"]
mod missed;
#[path = "stores/records.rs"]
mod records;
#[path = "stores/registration.rs"]
mod registration;
#[path = "stores/requests.rs"]
mod requests;
#[path = "stores/statistics.rs"]
mod statistics;
#[path = "stores/takeovers.rs"]
mod takeovers;

macro_rules! every_store {
    ($($promises:ident::$promise:ident;)+) => {
        promises!(memory: subject::memory; $($promises::$promise;)+);
        promises!(file: file_subject::file; $($promises::$promise;)+);
        promises!(redis: subject::redis; $($promises::$promise;)+);
        promises!(redis_sentinel: topology_subject::sentinel; $($promises::$promise;)+);
        promises!(redis_with_replicas: topology_subject::sentinel_with_replicas; $($promises::$promise;)+);
        promises!(redis_cluster: topology_subject::cluster; $($promises::$promise;)+);
        promises!(postgres: postgres_subject::postgres; $($promises::$promise;)+);
        promises!(postgres_behind_a_pooler: postgres_subject::pooled; $($promises::$promise;)+);
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

    registration::a_tick_before_the_job_was_known_is_not_run;
    registration::a_tick_that_the_server_saw_coming_is_run;
    registration::a_tick_that_the_store_knew_of_is_run_by_a_new_server;
    registration::the_first_claim_registers_the_schedule_whatever_its_answer;
    registration::an_early_claim_and_a_claim_by_hand_register_nothing;
    registration::a_newer_servers_schedule_counts_and_each_side_is_told_of_the_other;
    registration::a_newer_server_counts_although_it_began_before_the_older_one_registered;
    registration::a_changed_schedule_has_missed_nothing;
    registration::a_schedule_that_is_no_longer_registered_vouches_for_no_tick;
    registration::two_schedules_side_by_side_start_each_tick_at_most_once;

    missed::a_missed_tick_is_run_beyond_its_grace_and_once;
    missed::without_run_once_a_tick_beyond_its_grace_is_late;
    missed::nothing_was_missed_before_the_job_was_registered;
    missed::after_a_wipe_nothing_was_missed;
    missed::a_lease_that_heals_the_store_does_not_register_the_job;
    missed::a_tick_that_was_skipped_was_not_missed;
    missed::what_fell_into_a_pause_was_not_missed;
    missed::resuming_a_job_that_is_not_paused_forgets_nothing_that_was_missed;
    missed::pausing_again_forgets_nothing_that_was_missed;
    missed::a_missed_tick_is_not_skipped_while_the_key_is_held;
    missed::a_winner_is_told_after_which_tick_nothing_was_decided;
    missed::takeovers_replays_and_runs_by_hand_are_told_of_no_missed_ticks;
    missed::a_missed_tick_that_queues_starts_when_the_last_run_ends;

    takeovers::a_loser_is_told_of_the_unfinished_tick_and_how_long_its_key_is_held;
    takeovers::an_unfinished_tick_that_is_free_is_told_with_no_time_remaining;
    takeovers::a_new_server_takes_over_what_it_did_not_see_coming;
    takeovers::a_takeover_does_not_lower_the_mark;
    takeovers::a_crashed_tick_is_told_with_no_time_remaining;
    takeovers::a_strangers_lock_without_an_expiry_leaves_the_time_open;
    takeovers::a_finished_tick_is_not_told;
    takeovers::a_pause_puts_a_takeover_off;
    takeovers::a_tick_is_told_only_to_whom_may_take_it_over;
    takeovers::who_lost_its_lease_is_told_of_its_own_tick;
    takeovers::an_unfinished_tick_from_the_future_is_not_told;
    takeovers::claims_by_hand_are_told_of_no_tick;

    records::a_release_records_its_run_in_the_same_step;
    records::a_release_is_recorded_once_however_often_it_is_sent;
    records::a_crash_is_shown_before_anybody_records_it_and_recorded_the_same;
    records::a_run_that_goes_on_is_shown_with_its_progress;
    records::after_a_wipe_the_progress_is_put_back;
    records::errors_and_failed_tries_are_recorded_word_for_word;
    records::as_many_runs_and_skips_are_kept_as_the_newest_step_asks_for;
    records::a_crash_is_recorded_beside_as_many_runs_as_the_claim_asks_for;
    records::nothing_is_remembered_of_an_unknown_key;

    statistics::every_outcome_is_counted_but_what_was_not_started;
    statistics::a_release_is_counted_once_however_often_it_is_sent;
    statistics::a_crash_is_counted_once;
    statistics::a_run_whose_end_was_put_back_is_counted;
    statistics::successful_runs_tell_how_long_they_take;
    statistics::counts_outlive_the_runs_on_record;
    statistics::the_usual_duration_is_told_after_three_successes;
    statistics::a_run_that_began_in_the_future_took_no_time;

    requests::a_request_is_kept_until_it_is_taken_up;
    requests::a_request_is_taken_up_by_one_server_only;
    requests::what_nobody_asked_for_is_not_started;
    requests::an_expired_request_is_neither_told_nor_taken_up;
    requests::a_request_for_a_held_key_is_answered;
    requests::a_second_request_is_told_of_the_one_that_waits;
    requests::a_paused_job_can_be_requested;
    requests::a_requested_run_consumes_no_tick;
    requests::a_requested_run_that_was_not_started_waits_again;
    requests::every_announcement_is_told_of_every_request;

    forgetting::nothing_is_remembered_of_a_forgotten_job;
    forgetting::a_forgotten_job_has_missed_nothing;
    forgetting::a_held_key_is_not_forgotten;
    forgetting::a_job_whose_last_holder_crashed_is_forgotten;
    forgetting::a_paused_job_is_not_forgotten;
    forgetting::a_job_that_was_run_recently_is_not_forgotten;
    forgetting::a_job_whose_tick_was_skipped_recently_is_not_forgotten;
    forgetting::a_mark_from_the_future_is_not_forgotten;
    forgetting::fences_grow_across_forgetting;

    fleet::an_announced_server_is_listed_with_all_that_it_said;
    fleet::a_server_that_left_is_gone_and_may_come_back;
    fleet::a_server_that_falls_silent_is_gone;
    fleet::namespaces_have_fleets_of_their_own;
    fleet::an_announcement_that_cannot_be_read_hides_no_other;
    fleet::odd_servers_are_servers_of_their_own;

    keys::odd_keys_are_keys_of_their_own;
    keys::namespaces_are_separate;
}
