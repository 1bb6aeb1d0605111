//! How often servers go to the store, counted by the store.

use support::fleet::{Orders, Worker, all_steps, field, wait_until};
use support::hand::Hand;
use support::redis_server::RedisServer;

/// How often the server carried out this command, by a client's or a script's wish.
fn calls(hand: &Hand, command: &str) -> usize {
    let stats: String = hand.say("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number"))
}

/// What servers have asked of the store about jobs. A look gets the record and the lock. A swap gets the head of the record, and the
/// lock; one that is refused then gets the record, and the lock's remaining time.
#[derive(Debug)]
struct Requests {
    looks: usize,
    swaps: usize,
    announced: usize,
}

impl Requests {
    fn counted(hand: &Hand) -> Self {
        let swaps = calls(hand, "getrange");
        Self {
            looks: (calls(hand, "get") - calls(hand, "pttl") - swaps) / 2,
            swaps,
            announced: calls(hand, "zadd"),
        }
    }

    fn round_trips(&self) -> usize {
        self.looks + self.swaps
    }
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

/// Looks decide; only a winner writes. A server that looked before the winner had written makes a swap that is refused,
/// and learns from its answer who was first.
#[test]
fn losing_server_makes_one_round_trip_per_tick_or_two_if_it_raced_and_a_winning_one_three() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let orders = Orders::serve(&redis).set("WORKER_EVERY", "150ms").set("WORKER_TTL", 30_000);
    let servers = 10;
    let fleet = run(&redis, &orders, servers, 100);

    let won = all_steps(&fleet, "start").len();
    let lost = ticks(&fleet, &["taken", "held", "unregistered", "late"]);
    // The servers' estimate of the store's clock may drift a little ahead of it.
    let early = ticks(&fleet, &["early"]);
    // Of these some were given up without a question, because the server fell behind.
    let superseded = ticks(&fleet, &["superseded"]);
    let requests = Requests::counted(&hand);
    println!("{won} ticks won and {lost} lost: {requests:?}; {early} asked early, {superseded} superseded");
    assert!(won >= 100 && lost >= 8 * won, "{won} won, {lost} lost");
    assert!(superseded * 10 < lost, "too slow a machine: {superseded} superseded");
    assert!(early * 50 < lost, "{early} asked early");
    // When it starts, each server pings the store, and its diagnosis pings once more and reads the job's record.
    let looks = lost + won + early + 3 * servers;
    // A claim that met several others on the record looks again after a pause.
    let spare = superseded + won / 5;
    assert!((looks..=looks + spare).contains(&requests.looks), "{requests:?}, {looks} looks expected");
    // The winner's claim and its release; the first claims register the job.
    let raced = requests.swaps.checked_sub(2 * won).expect("every winner swaps twice");
    assert!(raced <= lost + spare, "{requests:?}: {raced} swaps of losers");
    // Each server joins, sends its first heartbeat, and writes the manifest of its program; then three heartbeats a minute.
    assert!(requests.announced <= servers * 4, "{} announcements", requests.announced);
}

#[test]
fn manual_lock_on_a_free_key_is_acquired_in_one_round_trip_and_released_in_another() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder = jobs::builder().without_jobs().url(redis.url());
        let jobs = builder.start_all().await.expect("the store is there");
        // The script becomes known to the server with the first one.
        jobs.lock("warm-up").acquire().await.expect("free").release().await.expect("held");
        for key in ["payment:1", "payment:2", "payment:1"] {
            let before = calls(&hand, "get");
            let guard = jobs.lock(key).acquire().await.expect("free");
            assert_eq!(calls(&hand, "get") - before, 1, "{key}: acquired");
            guard.release().await.expect("held");
            assert_eq!(calls(&hand, "get") - before, 2, "{key}: released");
        }
        jobs.shutdown().await;
    });
}

/// Runs of five seconds, ttl 1.5 s: three servers wait for the tick's end, in case it has to be taken over.
#[test]
fn server_that_waits_makes_one_more_round_trip_per_ttl() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let orders = Orders::serve(&redis).set("WORKER_EVERY", "10s").set("WORKER_TTL", 1500);
    let orders = orders.set("WORKER_STEPS", 50).set("WORKER_TAKEOVERS", 1);
    let servers = 4;
    let fleet = run(&redis, &orders, servers, 1);

    let run = all_steps(&fleet, "start")[0].clone();
    let took = all_steps(&fleet, "end")[0].at.since(run.at);
    let ttls = took.as_secs_f64() / 1.5;
    let requests = Requests::counted(&hand);
    // A swap that is applied and wins nothing begins with this: an extension, a release, the first registration.
    let extensions = calls(&hand, "persist");
    println!(
        "{took:?}, {ttls:.1} ttls: {requests:?} of {servers} servers, {extensions} extensions and releases"
    );
    // A ping, a look at the fleet's record and a claim at its start, and a claim for the tick from each server; who raced the
    // winner, or registered the job, made a swap, too; then the waiting, and the winner's own.
    let least = 4 * servers + 1 + extensions;
    let raced = 2 * servers;
    let waiting = requests.round_trips() - least;
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    // A lease that is extended every third of its ttl shows at least two thirds of it, and a server waits 0.2 s longer.
    let allowed = (servers - 1) * (took.as_secs_f64() / (1.0 + 0.2)).ceil() as usize + raced;
    assert!(waiting <= allowed, "{waiting} questions while waiting, {allowed} allowed");
    assert!(waiting >= servers - 1, "they do wait: {waiting}");
    // One for each third of a ttl, the release, and the registration.
    let thirds = usize::try_from(took.as_millis() / 500).expect("few");
    assert!(extensions <= thirds + 3, "{extensions} extensions and releases in {thirds} thirds of a ttl");
}
