//! The promises, by name: the one list from which [`contract`](super::contract) and
//! [`store_contract`](crate::store_contract) are made. Behind some stands what they need of a subject.

/// Not public API. Hands the list to a macro, behind whatever else that macro is given.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_promise {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            leases {
                a_key_can_be_locked_and_refused_and_released_and_taken_again;
                two_keys_are_independent;
                an_expired_lease_is_free;
                a_stale_token_can_neither_extend_nor_release_its_successors_lease;
                an_extension_outlives_the_first_ttl_and_can_be_repeated;
                an_extension_is_refused_after_a_release;
                an_extension_is_refused_after_the_expiry;
                a_replayed_claim_wins_again_with_the_same_fence_and_the_remaining_time;
                a_replayed_claim_does_not_win_once_its_lease_is_over;
                an_abandoned_claim_frees_the_key;
                an_abandoned_claim_heals_nothing: wipe;
                fences_strictly_grow;
            }
            claims {
                an_early_claim_is_told_how_long_to_wait;
                a_delayed_tick_is_early_until_its_delay_is_over;
                a_late_claim_is_told_how_late_it_is;
                a_taken_tick_names_its_winner;
                an_older_tick_is_superseded;
                a_mark_in_the_future_answers_ahead: wipe;
                a_held_key_names_its_holder_and_the_remaining_time;
                a_strangers_lock_is_held_by_nobody_known: lock;
                a_strangers_lock_without_an_expiry_has_no_remaining_time: lock;
                a_paused_job_answers_paused;
                a_paused_job_can_be_claimed_now;
                now_consumes_no_tick;
                now_is_refused_while_the_key_is_held;
            }
            marks {
                a_late_server_does_not_rerun_a_finished_tick;
                a_fast_clock_neither_starts_early_nor_burns_later_ticks;
                older_ticks_are_never_run_again;
                a_tick_skipped_as_held_is_skipped_for_all_servers_once;
                a_tick_skipped_as_paused_is_skipped_for_all_servers_once;
                a_queued_tick_starts_when_the_last_run_ends;
                an_unfinished_tick_is_not_taken_over_unasked;
                an_unfinished_tick_is_taken_over_with_the_next_attempt_and_a_higher_fence;
                a_tick_is_taken_over_only_as_often_as_allowed;
                a_finished_tick_is_never_taken_over;
                reset_takes_back_a_mark_ahead_of_the_clock_and_nothing_else: wipe;
            }
            races {
                of_many_servers_that_claim_a_tick_at_once_one_wins;
                of_many_servers_that_claim_now_at_once_one_wins;
                of_many_servers_that_take_a_tick_over_at_once_one_wins;
            }
            healing {
                a_vanished_lock_is_put_back_by_the_next_extension: lock;
                a_vanished_lock_frees_nobody: lock;
                after_a_wipe_an_extension_restores_lock_mark_and_fence: wipe;
                after_a_wipe_a_stranger_who_came_first_keeps_the_lock: lock;
                after_a_wipe_a_successor_with_a_higher_fence_keeps_the_key: wipe;
                after_a_wipe_an_expired_lease_is_not_restored: wipe;
                after_a_wipe_a_release_restores_the_mark: wipe;
                a_strangers_lock_ends_the_lease_and_is_never_touched: lock;
                fences_grow_across_a_wipe: wipe;
            }
            registration {
                a_tick_before_the_job_was_known_is_not_run;
                a_tick_that_the_server_saw_coming_is_run;
                a_tick_that_the_store_knew_of_is_run_by_a_new_server;
                the_first_claim_registers_the_schedule_whatever_its_answer;
                an_early_claim_and_a_claim_by_hand_register_nothing;
                a_newer_servers_schedule_counts_and_each_side_is_told_of_the_other;
                a_newer_server_counts_although_it_began_before_the_older_one_registered;
                a_changed_schedule_has_missed_nothing;
                a_schedule_that_is_no_longer_registered_vouches_for_no_tick;
                two_schedules_side_by_side_start_each_tick_at_most_once;
            }
            missed {
                a_missed_tick_is_run_beyond_its_grace_and_once;
                without_run_once_a_tick_beyond_its_grace_is_late;
                nothing_was_missed_before_the_job_was_registered;
                after_a_wipe_nothing_was_missed: wipe;
                a_lease_that_heals_the_store_does_not_register_the_job: wipe;
                a_tick_that_was_skipped_was_not_missed;
                what_fell_into_a_pause_was_not_missed;
                resuming_a_job_that_is_not_paused_forgets_nothing_that_was_missed;
                pausing_again_forgets_nothing_that_was_missed;
                a_missed_tick_is_not_skipped_while_the_key_is_held;
                a_winner_is_told_after_which_tick_nothing_was_decided;
                takeovers_replays_and_runs_by_hand_are_told_of_no_missed_ticks;
                a_missed_tick_that_queues_starts_when_the_last_run_ends;
            }
            takeovers {
                a_loser_is_told_of_the_unfinished_tick_and_how_long_its_key_is_held;
                an_unfinished_tick_that_is_free_is_told_with_no_time_remaining;
                a_new_server_takes_over_what_it_did_not_see_coming;
                a_takeover_does_not_lower_the_mark;
                a_crashed_tick_is_told_with_no_time_remaining;
                a_strangers_lock_without_an_expiry_leaves_the_time_open: lock;
                a_finished_tick_is_not_told;
                a_pause_puts_a_takeover_off;
                a_tick_is_told_only_to_whom_may_take_it_over;
                who_lost_its_lease_is_told_of_its_own_tick;
                an_unfinished_tick_from_the_future_is_not_told: wipe;
                claims_by_hand_are_told_of_no_tick;
            }
            records {
                a_release_records_its_run_in_the_same_step;
                a_release_is_recorded_once_however_often_it_is_sent;
                a_crash_is_shown_before_anybody_records_it_and_recorded_the_same;
                a_run_that_goes_on_is_shown_with_its_progress;
                after_a_wipe_the_progress_is_put_back: wipe;
                errors_and_failed_tries_are_recorded_word_for_word;
                as_many_runs_and_skips_are_kept_as_the_newest_step_asks_for;
                a_crash_is_recorded_beside_as_many_runs_as_the_claim_asks_for;
                nothing_is_remembered_of_an_unknown_key;
            }
            statistics {
                every_outcome_is_counted_but_what_was_not_started;
                a_release_is_counted_once_however_often_it_is_sent;
                a_crash_is_counted_once;
                a_run_whose_end_was_put_back_is_counted: wipe;
                successful_runs_tell_how_long_they_take;
                counts_outlive_the_runs_on_record;
                the_usual_duration_is_told_after_three_successes;
                a_run_that_began_in_the_future_took_no_time: wipe;
            }
            requests {
                a_request_is_kept_until_it_is_taken_up;
                a_request_is_taken_up_by_one_server_only;
                what_nobody_asked_for_is_not_started;
                an_expired_request_is_neither_told_nor_taken_up;
                a_request_for_a_held_key_is_answered;
                a_request_for_a_key_that_a_stranger_holds_is_answered: lock;
                a_second_request_is_told_of_the_one_that_waits;
                a_paused_job_can_be_requested;
                a_requested_run_consumes_no_tick;
                a_requested_run_that_was_not_started_waits_again;
                every_announcement_is_told_of_every_request;
                namespaces_have_requests_of_their_own: namespaces;
            }
            forgetting {
                nothing_is_remembered_of_a_forgotten_job;
                a_forgotten_job_has_missed_nothing;
                a_held_key_is_not_forgotten;
                a_key_that_a_stranger_holds_is_not_forgotten: lock;
                a_job_whose_last_holder_crashed_is_forgotten;
                a_paused_job_is_not_forgotten;
                a_job_that_was_run_recently_is_not_forgotten;
                a_job_whose_tick_was_skipped_recently_is_not_forgotten;
                a_mark_from_the_future_is_not_forgotten: wipe;
                fences_grow_across_forgetting;
            }
            fleet {
                an_announced_server_is_listed_with_all_that_it_said;
                a_server_that_left_is_gone_and_may_come_back;
                a_server_that_falls_silent_is_gone;
                namespaces_have_fleets_of_their_own: namespaces;
                an_announcement_that_cannot_be_read_hides_no_other;
                odd_servers_are_servers_of_their_own;
            }
            by_hand {
                a_lock_by_hand_excludes_runs_and_other_locks;
                fences_of_all_kinds_of_locks_grow_together;
                what_was_done_once_is_not_done_again;
                what_failed_may_be_tried_again;
                a_done_mark_expires;
                who_lost_its_lease_to_another_marks_nothing_as_done;
                after_a_wipe_a_release_restores_the_done_mark: wipe;
                nothing_is_remembered_of_a_key_without_a_job_after_a_while;
                what_a_job_has_stays;
                what_is_held_is_listed_with_its_kind;
                a_strangers_lock_is_listed_as_nobodys: lock;
                a_broken_lock_is_free_on_record_and_lost_to_its_holder;
                breaking_what_nobody_holds_breaks_nothing;
                a_strangers_lock_can_be_broken: lock;
            }
            slots {
                as_many_slots_are_held_as_there_are;
                slots_and_the_lock_of_a_key_are_independent;
                a_replayed_claim_is_told_of_the_slot_it_has;
                a_slot_that_ended_is_free_and_its_holder_has_lost_it;
                an_extended_slot_outlives_its_first_ttl;
                fewer_slots_take_effect_as_they_return;
                an_abandoned_claim_frees_its_slot;
                after_a_wipe_all_holders_get_their_slots_back_and_no_more: wipe;
                a_broken_slot_is_free_and_lost_to_its_holder;
                of_many_servers_that_claim_slots_at_once_as_many_win_as_there_are;
            }
            keys {
                odd_keys_are_keys_of_their_own;
                namespaces_are_separate: namespaces;
            }
        }
    };
}

/// One `#[test]` for each promise, by its name, in a module of the store's name.
///
/// The first argument names the module, the second is what opens a [`Subject`](crate::testing::store::Subject): a
/// function, or a closure, without arguments that returns a future of it. What the subject does not have is named
/// behind `without`, and the promises that [need](crate::testing::store::Need) it are reported as ignored.
///
/// ```
/// # mod doc {
/// use jobs::clock::SystemClock;
/// use jobs::store::memory::MemoryStore;
/// use jobs::testing::store::Subject;
///
/// async fn open() -> Subject {
///     Subject::new(MemoryStore::new(std::sync::Arc::new(SystemClock)))
/// }
///
/// jobs::store_contract!(my_store: open, without wipe, lock, namespaces);
/// # }
/// ```
#[macro_export]
macro_rules! store_contract {
    ($store:ident: $open:expr $(, without $($need:ident),+)? $(,)?) => {
        mod $store {
            #[allow(unused_imports)]
            use super::*;

            $crate::__every_promise! { [$crate::__store_tests] { $open } [$($($need)+)?] }
            $($(const _: $crate::testing::store::Need = $crate::__store_need!($need);)+)?
        }
    };
}

/// Not public API. What follows `without`, and stands behind a promise.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_need {
    (wipe) => {
        $crate::testing::store::Need::Wipe
    };
    (lock) => {
        $crate::testing::store::Need::Lock
    };
    (namespaces) => {
        $crate::testing::store::Need::Namespaces
    };
}

/// Not public API. A test for each promise.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_tests {
    ($open:tt $without:tt $($area:ident { $($promise:ident $(: $need:ident)?;)+ })+) => {
        $($($crate::__store_test! { $without [$($need)?] $promise $open })+)+
    };
}

/// Not public API. The test of one promise, which is ignored if the store is without what it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_test {
    ([wipe $($more:tt)*] [wipe] $promise:ident { $open:expr }) => {
        #[test]
        #[ignore = "not applicable: needs a hand that wipes a key"]
        fn $promise() {
            $crate::testing::store::prove(stringify!($promise), $open);
        }
    };
    ([lock $($more:tt)*] [lock] $promise:ident { $open:expr }) => {
        #[test]
        #[ignore = "not applicable: needs a hand on a lock that other programs see"]
        fn $promise() {
            $crate::testing::store::prove(stringify!($promise), $open);
        }
    };
    ([namespaces $($more:tt)*] [namespaces] $promise:ident { $open:expr }) => {
        #[test]
        #[ignore = "not applicable: needs namespaces"]
        fn $promise() {
            $crate::testing::store::prove(stringify!($promise), $open);
        }
    };
    ([$other:ident $($more:tt)*] $need:tt $promise:ident $open:tt) => {
        $crate::__store_test! { [$($more)*] $need $promise $open }
    };
    ([] $need:tt $promise:ident { $open:expr }) => {
        #[test]
        fn $promise() {
            $crate::testing::store::prove(stringify!($promise), $open);
        }
    };
}
