//! The promises, by name: the one list from which [`contract`](super::contract) and
//! [`store_contract`](crate::store_contract) are made. Behind some stands what they need of a subject.

/// Not public API. Hands the list to a macro, behind whatever else that macro is given.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_promise {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            looks {
                unknown_key_shows_nothing;
                look_writes_nothing;
                applied_swap_is_shown_by_the_next_look;
                version_fence_and_state_of_a_look_belong_together;
                looks_at_the_same_time_show_their_own_keys;
                every_answer_shows_the_same_clock;
                clock_advances_with_time;
            }
            swaps {
                swap_that_expects_no_record_creates_it_once;
                swap_from_an_older_version_is_refused;
                deletion_of_an_older_version_is_refused;
                swap_that_expects_a_record_is_refused_without_one;
                refused_swap_changes_nothing_and_shows_the_key;
                copy_of_an_applied_swap_is_refused;
                one_of_many_concurrent_swaps_from_a_version_is_applied;
                one_of_many_concurrent_creations_is_applied;
                no_update_of_concurrent_writers_is_lost;
                version_is_the_clock_at_the_swap_and_the_nonce;
                version_is_never_used_again;
                not_before_is_checked_by_the_stores_clock;
                not_after_is_checked_by_the_stores_clock;
                deletion_leaves_nothing;
                state_comes_back_with_every_field;
                swap_that_is_repeated_after_a_lost_answer_is_applied_once;
                wiped_key_is_like_a_new_one: wipe;
            }
            fences {
                next_fence_grows_and_is_at_least_the_clock;
                fence_is_kept_unless_the_swap_changes_it;
                fence_is_raised_to_at_least_a_number_and_never_lowered;
                fence_of_a_new_record_is_above_that_of_a_deleted_one;
                fences_grow_over_concurrent_deletions_and_creations;
                fences_of_concurrent_swaps_are_all_different;
            }
            records {
                records_are_kept_newest_first;
                newest_records_of_each_kind_are_kept;
                swap_without_records_keeps_those_that_are_there;
                newest_records_of_several_keys_are_returned_in_their_order;
                records_come_back_with_every_field;
                expired_record_is_shown_or_gone;
                record_of_a_job_does_not_expire;
            }
            locks {
                swap_sets_keeps_and_deletes_the_lock: lock;
                lock_expires_by_the_stores_clock: lock;
                foreign_lock_is_shown_with_its_expiry: lock;
                swap_is_refused_if_the_lock_is_not_the_expected_one: lock;
                foreign_tokens_are_compared_exactly: lock;
                foreign_lock_without_a_record_is_listed: lock;
            }
            lists {
                odd_keys_are_separate_keys;
                list_shows_every_key_as_a_look_does;
                list_shows_more_keys_than_a_page_has;
                namespaces_have_separate_keys: namespaces;
                namespaces_have_separate_notes: namespaces;
            }
            notes {
                note_is_shown_until_it_is_replaced_or_removed;
                note_expires_unless_it_is_renewed;
                topics_have_separate_notes;
                notes_come_back_as_they_were_put_in_the_order_of_their_names;
                swap_that_notifies_wakes_those_who_listen_to_its_key: notifications;
                silent_swaps_and_those_of_other_keys_wake_no_one: notifications;
            }
        }
    };
}

/// Makes a `#[test]` of each promise, by its name, in a module of the store's name.
///
/// The first argument names the module, the second opens a [`Subject`](crate::testing::store::Subject): a
/// function, or a closure, without arguments that returns a future of it. What the subject does not have is named
/// behind `without`, and the promises that [need](crate::testing::store::Capability) it are reported as ignored.
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
            $($(const _: $crate::testing::store::Capability = $crate::__store_need!($need);)+)?
        }
    };
}

/// Not public API. What follows `without`, and stands behind a promise.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_need {
    (wipe) => {
        $crate::testing::store::Capability::Wipe
    };
    (lock) => {
        $crate::testing::store::Capability::Lock
    };
    (namespaces) => {
        $crate::testing::store::Capability::Namespaces
    };
    (notifications) => {
        $crate::testing::store::Capability::Notifications
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
        #[ignore = "not applicable: needs a way to wipe a key"]
        fn $promise() {
            $crate::testing::store::prove(stringify!($promise), $open);
        }
    };
    ([lock $($more:tt)*] [lock] $promise:ident { $open:expr }) => {
        #[test]
        #[ignore = "not applicable: needs a lock that other programs see"]
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
    ([notifications $($more:tt)*] [notifications] $promise:ident { $open:expr }) => {
        #[test]
        #[ignore = "not applicable: needs notifications"]
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
