//! The policies that cross processes: real servers on real stores, killed, deployed and operated.
#![cfg(unix)]

use support::fleet::Orders;
use support::redis_server::RedisServer;

mod by_hand;
mod missed;
mod overlap;
mod records;
mod round_trips;
mod takeovers;

support::promises! {
    EVERYWHERE {
        overlap::a_queued_tick_starts_when_the_long_run_before_it_ends;
        takeovers::a_killed_winners_tick_finishes_on_another_server_within_the_ttl_and_a_second;
        takeovers::a_deploy_in_the_middle_of_a_run_hands_it_to_the_next_server;
    }
    EVERYWHERE_AT_LENGTH {
        by_hand::a_pause_on_one_server_is_seen_by_every_other_and_survives_restarts;
        by_hand::runs_by_hand_race_with_ticks_and_never_overlap;
        by_hand::a_run_that_is_asked_for_where_the_job_is_not_linked_happens_where_it_is;
        missed::after_the_whole_fleet_was_down_the_newest_missed_tick_runs_once;
        missed::after_the_whole_fleet_was_down_nothing_is_made_up_for_unless_asked_for;
        overlap::a_skipped_tick_does_not_start_when_the_long_run_before_it_ends;
        records::a_run_outlives_all_servers_on_record_as_unfinished_and_then_as_crashed;
        takeovers::a_killed_winners_tick_is_over_unless_asked_for;
    }
    ON_EVERY_SERVER_AT_LENGTH {
        missed::after_the_store_was_away_the_newest_missed_tick_runs_once;
    }
}

#[test]
fn one_of_two_processes_starts_a_run() {
    let redis = RedisServer::start();
    let fleet = Orders::serve(&redis).start_fleet(2);
    support::fleet::first_start(&fleet);
}
