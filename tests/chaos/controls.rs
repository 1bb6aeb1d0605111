//! Plausible locks that are wrong. The same harness must find each of them.

use std::path::Path;
use std::time::Duration;

use jobs::Timestamp;
use jobs::testing::check::{Fault, Invariant, KeyRules, LeaseRef, Observed, Trace, check};
use redis::aio::MultiplexedConnection;
use support::fleet::{Orders, Worker};
use support::hand::Hand;
use support::redis_server::RedisServer;
use support::worker::{orders, setting, tell};
use tokio::time::sleep;

use super::clock::{self, Random};
use super::history::{self, Held, History, Journal};
use super::resource::{self, Comparing};
use super::run;

const KEY: &str = "control";

/// In a worker: works under a lock of its own making until the harness is gone.
pub async fn worker(control: &str) {
    let mut random = Random::new(u64::from(std::process::id()));
    Journal::get().history.note(Observed::ServerStarted);
    tell("ready");
    let mut orders = orders();
    tokio::select! {
        () = async { loop {
            let Ok(mut redis) = connect().await else { continue };
            let _broken = match control {
                "plain lock" => lock_per_tick(&mut redis, &mut random).await,
                "unfenced writer" => write_without_comparison(&mut redis, &mut random).await,
                "bare delete" => release_by_bare_delete(&mut redis, &mut random).await,
                "keep-alive ends at an error" => keep_alive_until_an_error(&mut redis, &mut random).await,
                other => panic!("no such control: {other}"),
            };
        } } => {}
        _ = orders.recv() => {}
    }
}

async fn connect() -> redis::RedisResult<MultiplexedConnection> {
    let client = redis::Client::open(setting("URL").expect("a store")).expect("a URL");
    client.get_multiplexed_async_connection().await
}

/// `SET NX PX`, with a counter as fence.
async fn acquire(redis: &mut MultiplexedConnection, token: u64, ttl: u64) -> redis::RedisResult<Option<i64>> {
    let mut set = redis::cmd("SET");
    let set: Option<String> =
        set.arg("lock").arg(token).arg("NX").arg("PX").arg(ttl).query_async(redis).await?;
    if set.is_none() {
        return Ok(None);
    }
    redis::cmd("INCR").arg("fence").query_async(redis).await.map(Some)
}

/// Compares before it deletes.
async fn release(redis: &mut MultiplexedConnection, token: u64) -> redis::RedisResult<()> {
    let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";
    redis::Script::new(script).key("lock").arg(token).invoke_async(redis).await
}

/// The lock knows nothing of ticks: a short job is over before a late server asks for the same one.
async fn lock_per_tick(redis: &mut MultiplexedConnection, random: &mut Random) -> redis::RedisResult<()> {
    const INTERVAL: i64 = 200_000;
    let tick = Timestamp::from_micros((clock::wall().as_micros() / INTERVAL + 1) * INTERVAL);
    sleep(tick.since(clock::wall()) + random.millis(0, 40)).await;
    let token = random.between(1, u64::MAX - 1);
    if let Some(fence) = acquire(redis, token, 2000).await? {
        drop(Held::begin_run(KEY, fence, Some(tick), (1, 0)));
        release(redis, token).await?;
    }
    Ok(())
}

/// A holder that was stopped continues to write, to a resource that accepts it.
async fn write_without_comparison(
    redis: &mut MultiplexedConnection,
    random: &mut Random,
) -> redis::RedisResult<()> {
    let token = random.between(1, u64::MAX - 1);
    if let Some(fence) = acquire(redis, token, 1000).await? {
        let held = Held::begin(KEY, fence);
        for _ in 0..10 {
            sleep(Duration::from_millis(50)).await;
            held.step();
            resource::write(&held.0, Comparing::Nothing).await;
        }
        drop(held);
        release(redis, token).await?;
    }
    sleep(random.millis(5, 30)).await;
    Ok(())
}

/// A holder whose lease is over deletes the lock of its successor.
async fn release_by_bare_delete(
    redis: &mut MultiplexedConnection,
    random: &mut Random,
) -> redis::RedisResult<()> {
    let token = random.between(1, u64::MAX - 1);
    if let Some(fence) = acquire(redis, token, 300).await? {
        let held = Held::begin(KEY, fence);
        // Ends its work in time, but releases late.
        sleep(random.millis(50, 200)).await;
        drop(held);
        sleep(random.millis(0, 300)).await;
        let deleted: Option<u64> = redis::cmd("GETDEL").arg("lock").query_async(redis).await?;
        if deleted.is_some_and(|deleted| deleted != token) {
            Journal::get().history.note(Observed::Overwrote(LeaseRef { key: KEY.into(), fence }));
        }
    }
    sleep(random.millis(5, 30)).await;
    Ok(())
}

/// A holder believes in a lease that it no longer extends.
async fn keep_alive_until_an_error(
    redis: &mut MultiplexedConnection,
    random: &mut Random,
) -> redis::RedisResult<()> {
    let token = random.between(1, u64::MAX - 1);
    if let Some(fence) = acquire(redis, token, 900).await? {
        let held = Held::begin(KEY, fence);
        let mut own = redis.clone();
        let keep_alive = tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(300)).await;
                let extended: redis::RedisResult<i64> =
                    redis::cmd("PEXPIRE").arg("lock").arg(900).query_async(&mut own).await;
                if extended.is_err() {
                    return;
                }
            }
        });
        for _ in 0..40 {
            sleep(Duration::from_millis(50)).await;
            held.step();
        }
        keep_alive.abort();
        drop(held);
        release(redis, token).await?;
    }
    sleep(random.millis(5, 30)).await;
    Ok(())
}

/// Runs four workers with a wrong lock under a fault, and expects that the invariant does not hold.
fn expect(control: &str, invariant: Invariant, disturb: impl Fn(&[Worker], &RedisServer, &History)) {
    let folder = run::folder(&control.replace(' ', "-"));
    let redis = RedisServer::start();
    let history = History::create(&folder, "harness");
    let worker = |number: usize| {
        let orders = Orders::role(control).set("WORKER_NAME", name(number)).set("WORKER_URL", redis.url());
        orders.set("WORKER_FOLDER", folder.display()).start()
    };
    let workers: Vec<_> = (0..4).map(worker).collect();
    for worker in &workers {
        worker.wait_for("ready");
    }
    disturb(&workers, &redis, &history);
    drop(workers);
    let keys = [(KEY.to_owned(), KeyRules::with_ttl(Duration::from_secs(1)))].into();
    let trace = Trace { keys, observations: history::read_all(&folder), slack: Duration::ZERO };
    let verdict = check(&trace);
    let found = verdict.violations.iter().filter(|violation| violation.invariant == invariant).count();
    println!("{control}: {found} violations of {invariant} in {:?}", verdict.counts);
    assert!(found > 0, "{control} was not found out: {:?}, see {}", verdict.violations, folder.display());
    remove(&folder);
}

fn name(number: usize) -> String {
    format!("c{number}")
}

fn remove(folder: &Path) {
    let _best_effort = std::fs::remove_dir_all(folder);
}

#[test]
fn plain_lock_starts_ticks_twice() {
    expect("plain lock", Invariant::OneStart, |_, _, _| std::thread::sleep(Duration::from_secs(3)));
}

#[test]
fn unfenced_writer_that_was_stopped_writes_after_its_successor() {
    expect("unfenced writer", Invariant::FencedWrites, |workers, _, history| {
        for _ in 0..3 {
            let stopped = &workers[..3];
            for (number, worker) in stopped.iter().enumerate() {
                history.note_about(&name(number), Observed::FaultBegan(Fault::Stop));
                worker.signal("-STOP");
            }
            std::thread::sleep(Duration::from_millis(1700));
            for (number, worker) in stopped.iter().enumerate() {
                worker.signal("-CONT");
                history.note_about(&name(number), Observed::FaultEnded(Fault::Stop));
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    });
}

#[test]
fn bare_delete_releases_the_lock_of_another() {
    expect("bare delete", Invariant::OwnLeaseOnly, |_, _, _| std::thread::sleep(Duration::from_secs(4)));
}

#[test]
fn keep_alive_that_ends_at_its_first_error_lets_runs_overlap() {
    expect("keep-alive ends at an error", Invariant::NoOverlap, |_, redis, history| {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(1200));
            history.note_about("", Observed::FaultBegan(Fault::BadNetwork));
            let _killed: u32 = Hand::on(redis).say("CLIENT KILL TYPE normal");
            history.note_about("", Observed::FaultEnded(Fault::BadNetwork));
        }
        std::thread::sleep(Duration::from_secs(2));
    });
}
