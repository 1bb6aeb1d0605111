//! Many servers at once: one of them wins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::events::Taken;
use jobs::history::RunOutcome;
use jobs::schedule::Overlap;
use jobs::store::{Claim, ClaimDecision, Lease, TickClaim};
use jobs::testing::store::Client;

use super::{ISOLATION_LEVELS, claim_on, open, open_url, unused_name, win};
use support::bench::{DAY, LONG, ask, claim, claim_with, ending};
use support::pooler::Pooler;
use support::postgres_server::PostgresServer;

fn rounds() -> u32 {
    std::env::var("JOBS_TEST_ROUNDS").map_or(2_000, |rounds| rounds.parse().expect("a number"))
}

/// However slow the machine is: no tick is late.
fn patient_claim(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { grace: DAY, ..ask(tick) })
}

/// Claims the tick on both stores at the same time, and returns who won.
async fn race(stores: &[Client; 2], key: &str, tick: Timestamp) -> (usize, Lease) {
    let claims = [patient_claim("a", tick), patient_claim("b", tick)];
    let (a, b) = tokio::join!(claim_on(&stores[0], key, &claims[0]), claim_on(&stores[1], key, &claims[1]));
    match (a, b) {
        (ClaimDecision::Won(won), ClaimDecision::Taken(Taken::Started { server, .. })) if server == "a" => {
            (0, won.lease)
        }
        (ClaimDecision::Taken(Taken::Started { server, .. }), ClaimDecision::Won(won)) if server == "b" => {
            (1, won.lease)
        }
        other => panic!("one winner, and a loser who is told of it: {other:?}"),
    }
}

#[tokio::test]
async fn one_of_two_claims_of_an_unknown_job_wins() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let stores = [open(server, &namespace), open(server, &namespace)];
    let tick = stores[0].ping().await.unwrap().at;
    stores[1].ping().await.unwrap();
    let mut wins = [0; 2];
    for round in 0..rounds() {
        let (winner, _) = race(&stores, &format!("job-{round}"), tick).await;
        wins[winner] += 1;
    }
    println!("wins: {wins:?}");
}

#[tokio::test]
async fn one_of_two_claims_of_a_free_job_wins() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let stores = [open(server, &namespace), open(server, &namespace)];
    let start = stores[0].ping().await.unwrap().at - Duration::from_secs(1);
    stores[1].ping().await.unwrap();
    let (mut wins, mut last_fence) = ([0; 2], 0);
    for round in 0..rounds() {
        let tick = start + Duration::from_micros(round.into());
        let (winner, lease) = race(&stores, "job", tick).await;
        assert!(lease.fence > last_fence);
        last_fence = lease.fence;
        stores[winner].release("job", &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
        wins[winner] += 1;
    }
    println!("wins: {wins:?}");
    let stats = stores[0].history("job").await.unwrap().reply.stats;
    assert_eq!(stats.successes, u64::from(rounds()));
}

/// So many show something.
const ENOUGH: usize = 50;

/// As many as they can for a while, and on a slow machine for longer; returns the fence of each tick that was started.
async fn stampede(url: &str, clients: usize, lasts: Duration) -> BTreeMap<Timestamp, i64> {
    let namespace = unused_name();
    let (begun, count) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let goes_on = move |count: &AtomicUsize| {
        let enough = count.load(Ordering::SeqCst) > ENOUGH;
        begun.elapsed() < if enough { lasts } else { 20 * lasts }
    };
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let (store, count) = (open_url(url, &namespace), count.clone());
            tokio::spawn(async move {
                let mut started = Vec::new();
                while goes_on(&count) {
                    let now = store.ping().await.expect("ping").at.as_micros();
                    let tick = Timestamp::from_micros(now / 2_000 * 2_000);
                    let ask = TickClaim { overlap: Overlap::Queue, ..ask(tick) };
                    let claim = claim_with(&format!("s{number}"), LONG, ask);
                    if let ClaimDecision::Won(won) = claim_on(&store, "job", &claim).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        started.push((tick, won.lease.fence));
                        let end = ending(RunOutcome::Succeeded);
                        store.release("job", &won.lease, &end).await.expect("release");
                    }
                }
                started
            })
        })
        .collect();
    let mut fences = BTreeMap::new();
    for client in clients {
        for (tick, fence) in client.await.expect("no panic") {
            assert_eq!(fences.insert(tick, fence), None, "{tick} was started twice");
        }
    }
    fences
}

fn fences_grow(fences: &BTreeMap<Timestamp, i64>) {
    let fences: Vec<_> = fences.values().collect();
    println!("{} ticks were started", fences.len());
    assert!(fences.len() > ENOUGH, "only {} ticks were started", fences.len());
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_servers_at_full_speed_start_each_tick_once() {
    fences_grow(&stampede(&PostgresServer::shared().url(), 16, Duration::from_secs(3)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tick_starts_once_behind_a_pooler_with_a_session_per_transaction() {
    fences_grow(&stampede(&Pooler::shared().url(), 8, Duration::from_secs(1)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializable_isolation_causes_no_errors() {
    for level in ISOLATION_LEVELS {
        let url = format!("{}?{level}", PostgresServer::shared().url());
        fences_grow(&stampede(&url, 4, Duration::from_secs(1)).await);
    }
}

#[tokio::test]
async fn a_claim_that_loses_neither_locks_nor_waits() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = open(server, &namespace);
    let tick = store.ping().await.unwrap().at;
    let held = win(&store, "job", &claim("a", tick)).await;

    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    let row =
        format!("SELECT 1 FROM job_lock WHERE namespace = '{namespace}' AND job_name = 'job' FOR UPDATE");
    holding.batch_execute(&row).await.unwrap();
    let begun = Instant::now();
    let reply = claim_on(&store, "job", &claim("b", tick)).await;
    assert!(matches!(reply, ClaimDecision::Taken(_)), "{reply:?}");
    let reply = claim_on(&store, "job", &claim("b", tick + LONG)).await;
    assert!(matches!(reply, ClaimDecision::Early(_)), "{reply:?}");
    store.history("job").await.expect("history");
    assert!(begun.elapsed() < Duration::from_secs(1), "the loser waited {:?}", begun.elapsed());

    // The control: who writes does wait.
    let extending = tokio::time::timeout(Duration::from_millis(300), store.extend("job", &held)).await;
    assert!(extending.is_err(), "{extending:?}");
    holding.rollback().await.unwrap();
    store.extend("job", &held).await.expect("the row is free");
}
