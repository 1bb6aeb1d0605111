//! What goes wrong in production, done to real processes on real servers.
#![cfg(unix)]

use support::fleet::Orders;
use support::hand::Hand;
use support::redis_server::RedisServer;

mod blocking;
mod log;
mod neighbours;
mod outages;
mod processes;
mod redis;
mod redis_full;
mod shutdown;

support::promises! {
    EVERYWHERE {
        processes::a_killed_winners_tick_is_over_and_the_next_after_its_ttl_runs_elsewhere;
        processes::winner_that_was_stopped_past_its_lease_takes_no_further_step;
        processes::winner_that_continues_past_its_lease_does_harm_wherever_its_fence_is_not_compared;
        shutdown::a_run_longer_than_the_shutdowns_grace_is_cancelled_recorded_and_released;
    }
    EVERYWHERE_AT_LENGTH {
        blocking::a_job_that_blocks_the_only_thread_keeps_its_lease;
        blocking::a_job_that_blocks_past_a_shutdown_is_released_only_when_it_ends;
        blocking::server_whose_application_hangs_leaves_every_tick_to_the_other;
        log::losing_server_logs_one_debug_line_that_never_names_itself_as_the_winner;
        shutdown::a_run_may_finish_within_the_shutdowns_grace;
        shutdown::a_dropped_handle_cancels_its_runs_and_warns;
    }
    ON_EVERY_SERVER {
        outages::tick_while_the_store_is_stopped_runs_once_when_it_continues;
    }
    ON_EVERY_SERVER_AT_LENGTH {
        outages::tick_during_an_outage_runs_once_when_the_server_is_back;
        outages::a_run_keeps_its_lease_when_all_connections_are_cut;
    }
    ON_SERVERS_THAT_ARE_BACK_AT_ONCE {
        outages::a_run_keeps_its_lock_over_a_restart_of_a_durable_server;
    }
}

#[test]
fn a_run_of_another_process_is_recorded() {
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).start();
    let id = server.wait_for("ready");
    server.wait_for("run end");
    let run = &server.steps()[0];
    assert_eq!((&run.server, run.attempt), (&id, 1));
    support::fleet::wait_until("its record", || {
        Hand::on(&redis).history().runs.iter().any(|record| record.fence == run.fence)
    });
}
