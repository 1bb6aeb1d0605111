//! What the steps cost the server.

use std::time::Duration;

use jobs::store::{ClaimReply, RunOutcome, Taken};
use redis::aio::MultiplexedConnection;

use super::support::bench::{LONG, claim, claim_now};
use super::support::redis_server::RedisServer;
use super::{beside, fleet, raw};

#[tokio::test]
async fn a_step_costs_one_round_trip() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let everything = async || {
        let mut lease = bench.win(&claim_now("a", LONG)).await;
        bench.keep(&mut lease).await;
        bench.release(&lease, RunOutcome::Succeeded).await;
        bench.history().await;
        fleet::announce(&bench, "a", LONG).await;
    };
    everything().await;
    let () = raw(&mut plain, "CONFIG RESETSTAT").await;
    everything().await;
    let stats: String = raw(&mut plain, "INFO commandstats").await;
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
    };
    let sent: [u32; 3] = ["evalsha", "eval", "script|load"].map(calls);
    assert_eq!(sent, [5, 0, 0], "{stats}");
}

#[tokio::test]
async fn a_claim_that_loses_writes_nothing() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let tick = bench.now().await;
    let older = tick.minus(Duration::from_millis(1));
    let writes = async |plain: &mut MultiplexedConnection| {
        let info: String = raw(plain, "INFO persistence").await;
        info.lines().find(|line| line.starts_with("rdb_changes_since_last_save:")).map(str::to_owned)
    };
    let lease = bench.win(&claim("a", tick)).await;
    for outcome in [None, Some(RunOutcome::Succeeded)] {
        if let Some(outcome) = outcome {
            bench.release(&lease, outcome).await;
        }
        let before = writes(&mut plain).await;
        assert!(matches!(bench.claim(&claim("b", tick)).await, ClaimReply::Taken(Taken::Started { .. })));
        assert_eq!(bench.claim(&claim("b", older)).await, ClaimReply::Superseded(tick));
        assert_eq!(writes(&mut plain).await, before);
    }
}
