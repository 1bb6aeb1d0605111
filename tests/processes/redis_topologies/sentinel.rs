//! Sentinels that make a replica the master.

use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::store::Store;
use jobs::store::redis::RedisStore;

use super::{DEAD_AFTER, double_starts, failovers, fleet_with_a_run, serve, went_on};
use support::fleet::{Orders, all_steps, wait_for, wait_until};
use support::hand::Hand;
use support::redis_sentinel::RedisSentinel;

/// The master dies while a job runs whose claim the replica has.
fn a_failover_mid_run(parameters: &str) {
    let mut doubles = 0;
    for _ in 0..failovers() {
        let mut redis = RedisSentinel::start(DEAD_AFTER);
        let (fleet, run) = fleet_with_a_run(&redis.url(parameters));
        let replica = Hand::on(&redis.servers[1]);
        wait_until("the replica to have the claim", || replica.mark() >= Some(run.tick.as_micros()));
        redis.servers[0].kill();
        let new = redis.wait_for_successor_of(0);
        if parameters.contains("wait_replicas") {
            redis.revive(0, new);
        }
        went_on(&fleet, &run, Instant::now());
        doubles += double_starts(&fleet);
    }
    println!("{} failovers {parameters:?}: {doubles} double starts", failovers());
    assert_eq!(doubles, 0, "of ticks whose claims the replica had");
}

#[test]
fn run_keeps_its_lease_over_a_failover_and_later_ticks_run() {
    a_failover_mid_run("");
}

#[test]
fn run_keeps_its_lease_over_a_failover_and_later_ticks_run_once_a_replica_is_back() {
    a_failover_mid_run("?wait_replicas=1");
}

/// A job whose only tick of the day is soon, and may start for a minute after.
fn once_soon(url: &str) -> (Orders, Timestamp) {
    let seconds = Timestamp::now().as_micros() / 1_000_000 + 5;
    let (second, minute, hour) = (seconds % 60, seconds / 60 % 60, seconds / 3600 % 24);
    let every = format!("{second} {minute} {hour} * * *");
    let tick = Timestamp::from_micros(seconds * 1_000_000);
    let orders = serve(url).set("WORKER_EVERY", &every);
    (orders.set("WORKER_TTL", 45_000).set("WORKER_GRACE", 60_000), tick)
}

/// The master wins a claim for one server, and dies before its replica hears of it. Then another server, which was
/// stopped meanwhile, asks for the same tick. Returns how often it was started.
fn a_failover_that_loses_the_claim(parameters: &str) -> usize {
    let mut redis = RedisSentinel::start(DEAD_AFTER);
    let (orders, tick) = once_soon(&redis.url(parameters));
    let fleet = orders.start_fleet(2);
    assert!(Timestamp::now() < tick, "the workers took too long to start");
    fleet[1].signal("-STOP");
    redis.cut_replication(0);
    let master = Hand::on(&redis.servers[0]);
    wait_until("the claim", || master.mark() == Some(tick.as_micros()));
    if parameters.is_empty() {
        // A run whose end is not recorded yet would put its tick back.
        wait_until("the run's record", || !master.history().runs.is_empty());
    } else {
        fleet[0].wait_for_log("only 0 of 1 replicas have the lease");
    }
    redis.servers[0].kill();
    let new = redis.wait_for_successor_of(0);
    assert_eq!(Hand::on(&redis.servers[new]).mark(), None, "the failover lost the claim");
    fleet[1].signal("-CONT");
    let new_master = Hand::on(&redis.servers[new]);
    wait_until("the tick to be claimed again", || new_master.mark() == Some(tick.as_micros()));
    if !parameters.is_empty() {
        assert_eq!(all_steps(&fleet, "start").len(), 0, "nothing starts that no replica knows of");
        redis.revive(0, new);
    }
    let ran = wait_for("the run on the new master", || {
        new_master.history().runs.into_iter().find(|run| run.tick == Some(tick))
    });
    // What a run says arrives by another way than its record.
    wait_until("its start", || all_steps(&fleet, "start").iter().any(|start| start.fence == ran.fence));
    all_steps(&fleet, "start").iter().filter(|start| start.tick == tick).count()
}

#[test]
fn tick_whose_claim_a_failover_lost_starts_once_with_wait_replicas() {
    let starts: Vec<_> =
        (0..failovers()).map(|_| a_failover_that_loses_the_claim("?wait_replicas=1")).collect();
    println!("claims lost in a failover, with wait_replicas=1: started {starts:?} times");
    assert!(starts.iter().all(|starts| *starts == 1), "{starts:?}");
}

/// The control: without, nothing keeps the second server from starting it again.
#[test]
fn tick_whose_claim_a_failover_lost_starts_twice_without_wait_replicas() {
    let starts: Vec<_> = (0..failovers()).map(|_| a_failover_that_loses_the_claim("")).collect();
    println!("claims lost in a failover, without wait_replicas: started {starts:?} times");
    assert!(starts.contains(&2), "the failover lost no claim, so the test above shows nothing: {starts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_have_passwords_of_their_own_that_no_error_shows() {
    let redis = tokio::task::spawn_blocking(|| {
        let redis = RedisSentinel::start(Duration::from_secs(600));
        redis.tell_sentinels("ACL SETUSER default resetpass >watchword");
        let master = Hand::on(&redis.servers[0]);
        let () = master.say("ACL SETUSER jobs on >password ~* +@all");
        let () = master.say("ACL SETUSER default off");
        redis
    });
    let redis = redis.await.expect("sentinels");
    let ping = async |credentials: &str, parameters: &str| {
        let url = redis.url(parameters).replace("://", &format!("://{credentials}"));
        RedisStore::open(&url, None).expect("a URL").look("k").await.map_err(|error| error.to_string())
    };
    ping("jobs:password@", "?sentinel_password=watchword").await.expect("both are right");
    for (credentials, parameters, said) in [
        ("jobs:password@", "", "a sentinel refuses"),
        ("jobs:password@", "?sentinel_password=password", "a sentinel refuses"),
        ("jobs:watchword@", "?sentinel_password=watchword", "wrong user or password"),
    ] {
        let error = ping(credentials, parameters).await.expect_err(said);
        let secret =
            error.contains("watchword") || error.replace("user or password", "").contains(":password");
        assert!(error.contains(said) && !secret, "{error}");
    }
}

#[tokio::test]
async fn stopped_and_dead_sentinels_delay_nothing() {
    let redis = tokio::task::spawn_blocking(RedisSentinel::shared).await.expect("sentinels");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("its address");
    // Three answer, one is silent, and nobody listens at the last.
    let url = redis.url("").replace("redis+sentinel://", &format!("redis+sentinel://{silent},127.0.0.1:1,"));
    let store = RedisStore::open(&url, None).expect("a URL");
    let begun = Instant::now();
    store.look("k").await.expect("the master");
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows_is_refused_by_name() {
    let redis = tokio::task::spawn_blocking(RedisSentinel::shared).await.expect("sentinels");
    let url = redis.url("").replace("/shop/", "/bank/");
    let error = RedisStore::open(&url, None).expect("a URL").look("k").await.expect_err("no such master");
    assert!(error.to_string().contains("no sentinel knows a master named `bank`"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_no_sentinel_is_refused() {
    let redis = tokio::task::spawn_blocking(RedisSentinel::shared).await.expect("sentinels");
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", redis.servers[0].port());
    let error = RedisStore::open(&url, None).expect("a URL").look("k").await.expect_err("not a sentinel");
    assert!(error.to_string().contains("a sentinel refuses"), "{error}");
}
