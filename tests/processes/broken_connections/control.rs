//! Clients that are less careful: the same faults must hurt them, or the tests beside prove nothing.

use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::site::{Kind, Site};
use super::steps::{claim_case, every_fault_at_every_position};
use support::proxy::Fault;

pub async fn a_client_that_repeats_a_claim_with_another_token_is_locked_out_by_itself(kind: Kind) {
    let applied = [Fault::LostAnswer, Fault::LateAnswer, Fault::ResetBeforeAnswer, Fault::CutAnswer];
    // Which fault hits the answer that counts may differ on a busy machine, where a claim is given up for less.
    for _ in 0..3 {
        let tally = every_fault_at_every_position(kind, |site| claim_case(site, false)).await;
        println!("{kind:?}: {} of {} cases went wrong with another token", tally.wrong.len(), tally.cases);
        for (_, _, wrong) in &tally.wrong {
            assert!(wrong.contains("nobody else asks"), "locked out, and nothing else: {wrong}");
        }
        if tally.wrong.iter().any(|(fault, ..)| applied.contains(fault)) {
            return;
        }
    }
    panic!("the faults do no harm, so the tests beside prove nothing");
}

const LOCK: &str = "lock:import-products";

async fn plain(site: &Site, port: u16) -> MultiplexedConnection {
    let client = redis::Client::open(site.url(port)).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(400)));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

/// `SET NX` and nothing else; `None` if there was no answer.
async fn take(connection: &mut MultiplexedConnection, token: &str) -> Option<bool> {
    let mut set = redis::cmd("SET");
    set.arg(LOCK).arg(token).arg("NX").arg("PX").arg(3000);
    let won: Option<Option<String>> = set.query_async(connection).await.ok();
    won.map(|won| won.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_that_takes_a_lost_answer_for_a_loss_leaves_its_lock_behind() {
    let site = Site::new(Kind::Redis).await;
    let (mut through, mut around) = (plain(&site, site.proxy.port()).await, plain(&site, site.port()).await);
    site.proxy.strike(&[(Fault::LostAnswer, 1)]);
    assert_eq!(take(&mut through, "first").await, None, "it hears nothing, and goes on to other things");
    let holder: Option<String> = redis::cmd("GET").arg(LOCK).query_async(&mut around).await.expect("around");
    assert_eq!(holder.as_deref(), Some("first"), "the lock of nobody");
    assert_eq!(take(&mut around, "second").await, Some(false), "and nobody else gets it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_delete_of_a_plain_client_lets_two_runs_overlap() {
    let site = Site::new(Kind::Redis).await;
    let (mut through, mut around) = (plain(&site, site.proxy.port()).await, plain(&site, site.port()).await);
    assert_eq!(take(&mut through, "first").await, Some(true));
    site.proxy.strike(&[(Fault::LateRequest, 1)]);
    let deleted: Result<u32, _> = redis::cmd("DEL").arg(LOCK).query_async(&mut through).await;
    assert!(deleted.is_err(), "no answer, so it asks again");
    let mut through = plain(&site, site.proxy.port()).await;
    let deleted: u32 = redis::cmd("DEL").arg(LOCK).query_async(&mut through).await.expect("through");
    assert_eq!(deleted, 1);
    assert_eq!(take(&mut around, "second").await, Some(true), "the second run begins");
    site.proxy.settle().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(take(&mut around, "third").await, Some(true), "and the third beside it");
}
