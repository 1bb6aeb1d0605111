//! A cluster whose nodes die, hang, and hand their slots on.

use std::time::{Duration, Instant};

use jobs::store::ClaimDecision;
use jobs::store::redis::RedisStore;
use jobs::testing::store::Client;

use super::{DEAD_AFTER, double_starts, failovers, fleet_with_a_run, went_on};
use support::bench::{LONG, claim_now};
use support::fleet::{Worker, wait_for};
use support::hand::Hand;
use support::redis_cluster::RedisCluster;

const LOCK: &str = "lock:import";

/// The master of the job's slot dies while a job runs whose claim the replica has.
fn a_failover_mid_run(parameters: &str) {
    let mut doubles = 0;
    for _ in 0..failovers() {
        let mut redis = RedisCluster::start(DEAD_AFTER);
        let slot = redis.slot_of(LOCK);
        let (fleet, run) = fleet_with_a_run(&redis.url(parameters));
        let master = redis.master_of(slot).expect("a master");
        redis.wait_until_copied(master);
        redis.nodes[master].kill();
        let new = wait_for("a failover", || redis.master_of(slot));
        if parameters.contains("wait_replicas") {
            redis.nodes[master].restart();
            wait_for("the old master to be a replica", || {
                redis.say::<String>(new, "INFO replication").contains("state=online").then_some(())
            });
        }
        went_on(&fleet, &run, Instant::now());
        doubles += double_starts(&fleet);
    }
    println!("{} failovers of a cluster {parameters:?}: {doubles} double starts", failovers());
    assert_eq!(doubles, 0, "of ticks whose claims the replica had");
}

#[test]
fn run_keeps_its_lease_over_a_failover_and_later_ticks_run() {
    a_failover_mid_run("");
}

#[test]
fn jobs_run_again_with_wait_replicas_once_the_dead_node_is_back_as_a_replica() {
    a_failover_mid_run("?wait_replicas=1");
}

#[test]
fn a_run_keeps_its_lease_while_its_slot_moves_to_another_node() {
    let redis = RedisCluster::start(Duration::from_secs(600));
    let slot = redis.slot_of(LOCK);
    let (fleet, run) = fleet_with_a_run(&redis.url(""));
    let from = redis.master_of(slot).expect("a master");
    let to = (from + 1) % 3;
    redis.move_slot(slot, from, to);
    assert_eq!(redis.master_of(slot), Some(to));
    went_on(&fleet, &run, Instant::now());
    assert_eq!(double_starts(&fleet), 0);
    let lost = fleet.iter().flat_map(Worker::log).find(|line| line.contains("lease_lost"));
    assert_eq!(lost, None);
}

/// A node that hangs is silent to those in its slots, and to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_delays_no_job_in_another_slot_and_is_left_once_it_is_replaced() {
    let redis = tokio::task::spawn_blocking(|| RedisCluster::start(DEAD_AFTER)).await.expect("a cluster");
    let keys: Vec<_> = (0..20).map(|number| format!("job{number}")).collect();
    let on_first = |key: &&String| redis.master_of(redis.slot_of(&format!("lock:{key}"))) == Some(0);
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        tokio::task::block_in_place(|| keys.iter().partition(on_first));
    // Also for a server whose URL names no other node.
    let urls = [redis.url(""), format!("redis+cluster://127.0.0.1:{}", redis.nodes[0].port())];
    let stores = urls.map(|url| Client::new(RedisStore::open(&url, None).expect("a URL")));
    for key in &keys {
        let won = stores[0].claim(key, &claim_now("a", LONG)).await.expect("an answer").reply.decision;
        assert!(matches!(won, ClaimDecision::Won(_)), "{won:?}");
        stores[1].history(key).await.expect("an answer");
    }
    tokio::task::block_in_place(|| redis.wait_until_copied(0));
    let stopped = tokio::task::block_in_place(|| Hand::on(&redis.nodes[0]).stop_server());
    let ask_those_that_do_not_hang = async |store: &Client| {
        let hung = tokio::time::timeout(Duration::from_secs(5), store.history(there[0])).await;
        assert!(hung.is_ok_and(|answer| answer.is_err()), "a node that hangs has answered");
        for key in &elsewhere {
            let answer = tokio::time::timeout(Duration::from_millis(900), store.history(key)).await;
            answer.expect("no delay").expect("an answer");
        }
    };
    tokio::join!(ask_those_that_do_not_hang(&stores[0]), ask_those_that_do_not_hang(&stores[1]));
    let begun = Instant::now();
    loop {
        match stores[0].history(there[0]).await {
            Ok(history) => {
                assert!(history.reply.current.is_some(), "the replica had the claim");
                break;
            }
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(stopped);
}
