//! What the steps cost the server.

use std::sync::Arc;
use std::time::Duration;

use jobs::events::Taken;
use jobs::history::RunOutcome;
use jobs::store::redis::RedisStore;
use jobs::store::{ClaimDecision, ClaimPurpose, ReleaseReply};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::{LOCK, beside, fleet, raw};
use support::bench::{LONG, claim, claim_what, ending};
use support::proxy::Proxy;
use support::redis_server::{PATIENCE, RedisServer};

/// How often the server has run a command since it last forgot.
async fn calls(plain: &mut MultiplexedConnection, command: &str) -> u32 {
    let stats: String = raw(plain, "INFO commandstats").await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}

/// Counts the round trips of a step on the way to the server, and the scripts that the server ran for it.
struct Meter {
    proxy: Proxy,
    plain: MultiplexedConnection,
}

impl Meter {
    async fn cost_of<T>(&mut self, step: impl Future<Output = T>) -> (usize, u32, T) {
        let () = raw(&mut self.plain, "CONFIG RESETSTAT").await;
        self.proxy.strike(&[]);
        let reply = step.await;
        let round_trips = self.proxy.answers();
        assert_eq!(calls(&mut self.plain, "eval").await, 0, "sent by its digest");
        (round_trips, calls(&mut self.plain, "evalsha").await, reply)
    }
}

/// Fifty jobs that are due at the same second: each of fifty tasks loses its tick.
#[tokio::test]
async fn claims_at_the_same_time_share_a_look() {
    const JOBS: u32 = 50;
    let server = RedisServer::start();
    let store = RedisStore::open(&format!("redis://127.0.0.1:{}", server.port()), None).expect("a URL");
    let client = Arc::new(Client::new(store.with_timeouts(PATIENCE, PATIENCE)));
    let mut plain = server.client().await;
    let tick = client.ping().await.expect("a ping").at;
    let names: Vec<_> = (0..JOBS).map(|number| format!("job-{number}")).collect();
    for name in &names {
        client.acquire(name, &claim("winner", tick)).await.expect("a claim").expect("it is due");
    }

    // Every look reads the clock once, whatever the number of its keys.
    let () = raw(&mut plain, "CONFIG RESETSTAT").await;
    let mut tasks = JoinSet::new();
    for name in names.clone() {
        let client = client.clone();
        tasks.spawn(async move { (client.claim(&name, &claim("loser", tick)).await, name) });
    }
    while let Some(lost) = tasks.join_next().await {
        let (answer, name) = lost.expect("no panic");
        let decision = answer.expect("an answer").reply.decision;
        assert!(matches!(decision, ClaimDecision::Taken(_)), "{name}: {decision:?}");
    }
    assert_eq!(calls(&mut plain, "time").await, 1);
    assert_eq!(calls(&mut plain, "get").await, 2 * JOBS);

    // The control: one after the other, each has a look of its own.
    let () = raw(&mut plain, "CONFIG RESETSTAT").await;
    for name in &names {
        client.claim(name, &claim("loser", tick)).await.expect("an answer");
    }
    assert_eq!(calls(&mut plain, "time").await, JOBS);
}

#[tokio::test]
async fn each_step_costs_its_round_trips_and_no_more() {
    let server = RedisServer::start();
    let proxy = Proxy::before(server.port(), Duration::ZERO).await;
    let store = RedisStore::open(&format!("redis://127.0.0.1:{}", proxy.port()), None).expect("a URL");
    let client = Client::new(store.with_timeouts(PATIENCE, PATIENCE));
    let mut meter = Meter { proxy, plain: server.client().await };

    // Connected, and the scripts are known.
    let first = client.acquire("warm", &claim_what("a", LONG, ClaimPurpose::Lock)).await.expect("a claim");
    first.expect("free").release(&ending(RunOutcome::Succeeded)).await.expect("a release");
    client.announce("a", &fleet::about("a"), LONG).await.expect("an announcement");

    let tick = client.ping().await.expect("a ping").at;
    let (trips, scripts, won) = meter.cost_of(client.acquire("k", &claim("a", tick))).await;
    let mut won = won.expect("an answer").expect("it is due");
    assert_eq!((trips, scripts), (2, 1), "a claim that wins: a look and a swap");

    let (trips, scripts, lost) = meter.cost_of(client.claim("k", &claim("b", tick))).await;
    let lost = lost.expect("an answer").reply.decision;
    assert!(matches!(lost, ClaimDecision::Taken(_)), "{lost:?}");
    assert_eq!((trips, scripts), (1, 0), "a claim that loses: a look");

    let (trips, scripts, kept) = meter.cost_of(won.extend()).await;
    kept.expect("an answer");
    assert_eq!((trips, scripts), (1, 1), "an extension: a swap");
    let end = ending(RunOutcome::Succeeded);
    let (trips, scripts, released) = meter.cost_of(won.release(&end)).await;
    assert_eq!(released.expect("an answer"), ReleaseReply::Released);
    assert_eq!((trips, scripts), (1, 1), "a release: a swap");

    let lock = claim_what("a", LONG, ClaimPurpose::Lock);
    let (trips, scripts, lock) = meter.cost_of(client.acquire("lock", &lock)).await;
    let lock = lock.expect("an answer").expect("free");
    assert_eq!((trips, scripts), (1, 1), "a manual lock that is free: a swap");
    let (trips, scripts, _) = meter.cost_of(lock.release(&end)).await;
    assert_eq!((trips, scripts), (1, 1), "its release: a swap");

    let (trips, scripts, history) = meter.cost_of(client.history("k")).await;
    assert_eq!(history.expect("an answer").reply.runs.len(), 1);
    assert_eq!((trips, scripts), (2, 0), "a history: a look and the records");
    let about = fleet::about("a");
    let (trips, scripts, _) = meter.cost_of(client.announce("a", &about, LONG)).await;
    assert_eq!((trips, scripts), (2, 1), "a heartbeat: a note, and the requests");
}

/// The commands that the server executed since its figures were reset, with their counts.
async fn executed(plain: &mut MultiplexedConnection) -> Vec<String> {
    let stats: String = raw(plain, "INFO commandstats").await;
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    // Redis before 7.0 counts commands without their subcommands.
    let lines = lines.filter(|(name, _)| !["config", "config|resetstat", "info"].contains(name));
    let calls = |figures: &str| figures.split(',').next().unwrap_or_default().replace("calls=", "");
    let mut commands: Vec<_> = lines.map(|(name, figures)| format!("{name} {}", calls(figures))).collect();
    commands.sort_unstable();
    commands
}

#[tokio::test]
async fn a_look_is_made_of_plain_reads() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    bench.win(&claim("a", bench.now().await)).await;
    let () = raw(&mut plain, "CONFIG RESETSTAT").await;
    bench.look().await;
    assert_eq!(executed(&mut plain).await, ["get 2", "time 1"]);
}

#[tokio::test]
async fn a_look_at_the_lock_of_another_program_also_reads_its_expiry() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let () = raw(&mut plain, &format!("SET {LOCK} other PX 60000")).await;
    // Opens the connection, which takes commands of its own.
    bench.look().await;
    let () = raw(&mut plain, "CONFIG RESETSTAT").await;
    let lock = bench.look().await.lock.expect("a lock");
    assert_eq!(executed(&mut plain).await, ["get 4", "pttl 1", "time 2"]);
    assert_eq!(&*lock.token, "other");
    assert!(lock.until.expect("an expiry") > bench.now().await);
}

#[tokio::test]
async fn a_claim_that_loses_writes_nothing() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let tick = bench.now().await;
    let older = tick - Duration::from_millis(1);
    let writes = async |plain: &mut MultiplexedConnection| {
        let info: String = raw(plain, "INFO persistence").await;
        info.lines().find(|line| line.starts_with("rdb_changes_since_last_save:")).map(str::to_owned)
    };
    let lease = bench.win(&claim("a", tick)).await;
    for outcome in [None, Some(RunOutcome::Succeeded)] {
        if let Some(outcome) = outcome {
            bench.release(&lease, outcome).await;
        }
        let before = (writes(&mut plain).await, calls(&mut plain, "evalsha").await);
        assert!(before.0.is_some());
        assert!(matches!(bench.claim(&claim("b", tick)).await, ClaimDecision::Taken(Taken::Started { .. })));
        assert_eq!(bench.claim(&claim("b", older)).await, ClaimDecision::Superseded(tick));
        assert_eq!(
            (writes(&mut plain).await, calls(&mut plain, "evalsha").await),
            before,
            "no script, no write"
        );
    }
}
