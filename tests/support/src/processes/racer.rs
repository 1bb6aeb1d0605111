//! A process that asks for each of many ticks at its own, wrong time, in one of two ways.

use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::schedule::Overlap;
use jobs::store::{ClaimDecision, TickClaim};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;

use crate::bench::{ask, claim_with, ending};
use crate::hand::open;
use crate::worker::{KEY, number, orders, tell};

const TTL: Duration = Duration::from_secs(1);

/// A slow machine is not what is measured here.
const PATIENCE: Duration = Duration::from_secs(20);

/// In a worker: waits for the first tick, asks for every one, and tells which of them it ran.
pub async fn race(way: &str) {
    let url = std::env::var("JOBS_URL").expect("the store's URL");
    let mut client = if way == "naive" { Some(connect(&url).await) } else { None };
    let store = Client::of(open(&url, std::env::var("JOBS_NAMESPACE").ok().as_deref()));
    store.ping().await.expect("a connection");
    tell("ready");
    let Some(first) = orders().recv().await else { return };
    let first: i64 = first.parse().expect("a tick");

    let mut ran = Vec::new();
    for index in 0..number("TICKS", 0) {
        let tick = Timestamp::from_micros(first + index * number("GAP", 0) * 1000);
        let asks_at = Timestamp::from_micros(tick.as_micros() + number("SKEW", 0) * 1000);
        tokio::time::sleep(asks_at.since(Timestamp::now())).await;
        let ran_it = match way {
            "naive" => plain_pattern(client.as_mut().expect("connected"), tick).await,
            "claim" => claim(&store, tick).await,
            way => panic!("no such way: {way}"),
        };
        if ran_it {
            ran.push(tick.as_micros().to_string());
        }
    }
    tell(&format!("ran {}", ran.join(" ")));
}

async fn connect(redis: &str) -> MultiplexedConnection {
    let client = redis::Client::open(redis).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

async fn the_job() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn token(tick: Timestamp) -> String {
    format!("{}-{}", std::process::id(), tick.as_micros())
}

/// What many programs do: take the lock if it is free, run, delete the lock if it is still ours.
async fn plain_pattern(client: &mut MultiplexedConnection, tick: Timestamp) -> bool {
    const DELETE_OURS: &str = "
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
    let (lock, token) = (format!("lock:{KEY}"), token(tick));
    let mut set = redis::cmd("SET");
    set.arg(&lock).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis().to_string());
    let won: Option<String> = set.query_async(client).await.expect("an answer");
    if won.is_none() {
        return false;
    }
    the_job().await;
    let script = redis::Script::new(DELETE_OURS);
    let _expired: u32 = script.key(&lock).arg(&token).invoke_async(client).await.expect("an answer");
    true
}

async fn claim(store: &Client, tick: Timestamp) -> bool {
    // A machine that stalls in the middle of a run must not cost the next tick.
    let patient = TickClaim { grace: Duration::from_secs(60), overlap: Overlap::Queue, ..ask(tick) };
    let claim = claim_with(&std::process::id().to_string(), TTL, patient);
    loop {
        match store.claim(KEY, &claim).await.expect("an answer").reply.decision {
            ClaimDecision::Won(won) => {
                the_job().await;
                let end = ending(RunOutcome::Succeeded);
                store.release(KEY, &won.lease, &end).await.expect("an answer");
                return true;
            }
            ClaimDecision::Early(wait) => tokio::time::sleep(wait).await,
            ClaimDecision::Held(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            ClaimDecision::Taken(_) | ClaimDecision::Superseded(_) => return false,
            other => panic!("{other:?}"),
        }
    }
}
