//! The policies that cross processes: real servers on real stores, killed, deployed and operated.
#![cfg(unix)]

use support::fleet::Orders;
use support::redis_server::RedisServer;

mod manual_runs;
mod missed;
mod overlap;
mod records;
mod round_trips;
mod takeovers;

support::promises! {
    EVERYWHERE {
        overlap::a_queued_tick_starts_when_the_long_run_before_it_ends;
        takeovers::a_killed_winners_tick_finishes_on_another_server_within_the_ttl_and_a_second;
        takeovers::deploy_in_the_middle_of_a_run_hands_its_tick_to_the_next_server;
    }
    EVERYWHERE_AT_LENGTH {
        manual_runs::a_pause_on_one_server_is_seen_by_every_other_and_survives_restarts;
        manual_runs::manual_runs_race_with_ticks_and_never_overlap;
        manual_runs::manual_run_requested_on_a_server_without_the_job_runs_on_one_with_it;
        missed::newest_missed_tick_runs_once_after_the_whole_fleet_was_down;
        missed::missed_ticks_do_not_run_by_default_after_the_whole_fleet_was_down;
        overlap::a_skipped_tick_does_not_start_when_the_long_run_before_it_ends;
        records::a_run_outlives_all_servers_on_record_as_unfinished_and_then_as_crashed;
        takeovers::tick_of_a_killed_winner_is_over_without_takeovers;
    }
    ON_EVERY_SERVER_AT_LENGTH {
        missed::newest_missed_tick_runs_once_after_an_outage_of_the_store;
    }
}

#[test]
fn one_of_two_processes_starts_a_run() {
    let redis = RedisServer::start();
    let fleet = Orders::serve(&redis).start_fleet(2);
    support::fleet::first_start(&fleet);
}
