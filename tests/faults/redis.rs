//! A Redis server that restarts, is away, or forgets, while jobs run.

use std::time::Duration;

use jobs::store::{ClaimReply, Taken};
use jobs::{RunOutcome, Schedule, Timestamp};

use crate::support::fleet::{Orders, Step, Worker, all_steps, first_start, wait_for, wait_until};
use crate::support::hand::Hand;
use crate::support::redis_server::RedisServer;

const DURABLE: &[&str] = &["--appendonly", "yes"];

/// The run goes on for about two seconds from here, over several extensions.
fn long_run(redis: &RedisServer) -> (Vec<Worker>, Step) {
    let orders =
        Orders::serve(redis).set("WORKER_EVERY", "5s").set("WORKER_TTL", 1500).set("WORKER_STEPS", 25);
    let fleet = orders.start_fleet(3);
    let (winner, run) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    (fleet, run)
}

/// The tick ran once, to its end, and everybody knows.
fn ran_once(hand: &Hand, fleet: &[Worker], run: &Step) {
    let record = wait_for("the run's record", || {
        hand.history().runs.into_iter().find(|record| record.fence == run.fence)
    });
    assert_eq!((record.outcome, record.tick), (RunOutcome::Succeeded, Some(run.tick)));
    let starts = all_steps(fleet, "start");
    assert_eq!(starts.iter().filter(|start| start.tick == run.tick).count(), 1, "{starts:?}");
    let late = hand.claim(run.tick);
    let taken =
        matches!(late, ClaimReply::Taken(Taken::Started { finished: true, .. }) | ClaimReply::Superseded(_));
    assert!(taken, "{late:?}");
}

fn a_restart_mid_run(options: &[&str], forgets: bool) {
    let mut redis = RedisServer::start_with(options);
    let hand = Hand::on(&redis);
    let (fleet, run) = long_run(&redis);
    let token = hand.lock().expect("the run's lock");
    redis.restart();
    assert_eq!(hand.mark().is_none(), forgets, "what the restart left");
    wait_until("the lock to be back", || hand.lock().as_ref() == Some(&token));
    assert_eq!(hand.mark(), Some(run.tick.as_micros()));
    ran_once(&hand, &fleet, &run);
    let healed = fleet.iter().flat_map(Worker::log).any(|line| line.contains("it was put back"));
    assert_eq!(healed, forgets);
}

#[test]
fn a_run_keeps_its_lock_over_a_restart_of_a_durable_redis() {
    a_restart_mid_run(DURABLE, false);
}

#[test]
fn a_run_puts_its_lock_and_mark_back_into_a_redis_that_lost_everything() {
    a_restart_mid_run(&[], true);
}

/// The server goes away before a tick and comes back three seconds later.
fn an_outage_across_a_tick(outage: impl FnOnce(&mut RedisServer)) {
    const GRACE: Duration = Duration::from_secs(10);
    let mut redis = RedisServer::start_with(DURABLE);
    let hand = Hand::on(&redis);
    let grace = GRACE.as_millis();
    let orders =
        Orders::serve(&redis).set("WORKER_EVERY", "5s").set("WORKER_TTL", 3000).set("WORKER_GRACE", grace);
    let fleet = orders.start_fleet(3);
    let schedule = Schedule::parse("5s", None).unwrap();
    let soon = Timestamp::now().plus(Duration::from_millis(300));
    let tick = schedule.next_after(soon).unwrap();
    std::thread::sleep(tick.minus(Duration::from_millis(300)).since(Timestamp::now()));
    outage(&mut redis);
    let back = Timestamp::now();
    assert!(back.since(tick) > Duration::from_secs(2), "the outage was across the tick");

    let run =
        wait_for("the tick", || all_steps(&fleet, "start").into_iter().find(|start| start.tick == tick));
    assert!(run.at.since(tick) <= GRACE, "{run:?}");
    println!("the tick ran {:?} after the server was back", run.at.since(back));
    ran_once(&hand, &fleet, &run);
}

#[test]
fn a_tick_during_an_outage_runs_once_when_redis_is_back() {
    an_outage_across_a_tick(|redis| {
        redis.kill();
        std::thread::sleep(Duration::from_secs(3));
        redis.restart();
    });
}

#[test]
fn a_tick_while_redis_stands_still_runs_once_when_it_goes_on() {
    an_outage_across_a_tick(|redis| {
        let _stopped = Hand::on(redis).stop_server();
        std::thread::sleep(Duration::from_secs(3));
    });
}

#[test]
fn a_script_flush_mid_run_goes_unnoticed() {
    // One that a start does not warn of.
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    let hand = Hand::on(&redis);
    let (fleet, run) = long_run(&redis);
    let token = hand.lock();
    // Often enough to hit scripts that were used before.
    for _ in 0..4 {
        hand.say::<()>("SCRIPT FLUSH");
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(hand.lock(), token);
    }
    ran_once(&hand, &fleet, &run);
    let complaints: Vec<_> = fleet.iter().flat_map(Worker::log).filter(|line| !quiet(line)).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn a_run_keeps_its_lease_when_all_connections_are_cut() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let (fleet, run) = long_run(&redis);
    let token = hand.lock();
    for _ in 0..3 {
        hand.say::<u32>("CLIENT KILL TYPE normal");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(hand.lock(), token);
    }
    ran_once(&hand, &fleet, &run);
}

fn quiet(line: &str) -> bool {
    line.starts_with("INFO") || line.starts_with("DEBUG")
}
