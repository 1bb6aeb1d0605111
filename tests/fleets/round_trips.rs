//! How often servers go to the store, counted by the store.

use crate::support::fleet::{Orders, Worker, all_steps, field, wait_until};
use crate::support::hand::Hand;
use crate::support::redis_server::RedisServer;

/// How often the server carried out this command, by a client's or a script's wish.
fn calls(hand: &Hand, command: &str) -> usize {
    let stats: String = hand.say("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number"))
}

/// Runs the fleet until so many runs have ended, and shuts it down.
fn run(redis: &RedisServer, orders: &Orders, servers: usize, runs: usize) -> Vec<Worker> {
    let mut fleet = orders.start_fleet(servers);
    wait_until("the runs", || all_steps(&fleet, "end").len() >= runs);
    for server in &mut fleet {
        server.order("shutdown");
    }
    for server in &fleet {
        server.wait_for("down");
    }
    assert_eq!(calls(&Hand::on(redis), "zrem"), servers, "each has taken its leave");
    fleet
}

/// How many ticks ended so, by the servers' logs.
fn ticks(fleet: &[Worker], outcomes: &[&str]) -> usize {
    let log = fleet.iter().flat_map(Worker::log);
    log.filter(|line| field(line, "outcome").is_some_and(|outcome| outcomes.contains(&outcome.as_str())))
        .count()
}

#[test]
fn a_losing_server_makes_one_round_trip_per_tick_and_a_winning_one_two() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let orders = Orders::serve(&redis).set("WORKER_EVERY", "150ms").set("WORKER_TTL", 30_000);
    let fleet = run(&redis, &orders, 10, 100);

    let won = all_steps(&fleet, "start").len();
    let lost = ticks(&fleet, &["taken", "held", "unregistered", "late"]);
    // The servers' estimate of the store's clock may drift a little ahead of it.
    let early = ticks(&fleet, &["early"]);
    // Of these some were given up without a question, because the server fell behind.
    let superseded = ticks(&fleet, &["superseded"]);
    let (announced, left) = (calls(&hand, "zadd"), calls(&hand, "zrem"));
    // Every step begins with EVALSHA; only a script that the server does not know yet is sent whole after it.
    let steps = calls(&hand, "evalsha") - announced - left;
    println!(
        "{won} ticks won and {lost} lost: {steps} round trips, and {announced} announcements; {early} \
         asked early, {superseded} superseded"
    );
    assert!(won >= 100 && lost >= 8 * won, "{won} won, {lost} lost");
    assert!(superseded * 10 < lost, "too slow a machine: {superseded} superseded");
    assert!(early * 50 < lost, "{early} asked early");
    let expected = lost + 2 * won + early;
    assert!((expected..=expected + superseded).contains(&steps), "{steps} round trips, {expected} expected");
    assert!(announced <= 10 * 2, "at most three a minute from each");
}

/// Runs of five seconds, ttl 1.5 s: nine servers wait for the tick's end, in case it has to be taken over.
#[test]
fn a_server_that_waits_makes_one_more_round_trip_per_ttl() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let orders = Orders::serve(&redis).set("WORKER_EVERY", "10s").set("WORKER_TTL", 1500);
    let orders = orders.set("WORKER_STEPS", 50).set("WORKER_TAKEOVERS", 1);
    let servers = 4;
    let fleet = run(&redis, &orders, servers, 1);

    let run = all_steps(&fleet, "start")[0].clone();
    let took = all_steps(&fleet, "end")[0].at.since(run.at);
    let ttls = took.as_secs_f64() / 1.5;
    // Extensions and releases begin with it; so does the removal of a server, and a job that is new has one with two of
    // the others.
    let extensions = calls(&hand, "hdel") - calls(&hand, "zrem") - calls(&hand, "persist") / 2;
    let steps = calls(&hand, "evalsha") - calls(&hand, "zadd") - calls(&hand, "zrem");
    println!(
        "{took:?}, {ttls:.1} ttls: {steps} round trips of {servers} servers, {extensions} by the winner"
    );
    // One claim at its start and one for the tick from each server; then the waiting, and the winner's own.
    let waiting = steps - 2 * servers - extensions;
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    let allowed = (servers - 1) * ttls.ceil() as usize;
    assert!(waiting <= allowed, "{waiting} questions while waiting, {allowed} allowed");
    assert!(waiting >= servers - 1, "they do wait: {waiting}");
}
