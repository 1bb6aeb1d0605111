//! Claims that start nothing before a replica has them.

use std::time::Duration;

use jobs::Timestamp;
use jobs::store::redis::RedisStore;
use jobs::store::{ClaimDecision, ExtendReply, StoreErrorKind};
use jobs::testing::store::{AcquiredLease, Client, Subject};

use super::serve;
use support::bench::{Bench, LONG, claim_now};
use support::fleet::{wait_for, wait_until};
use support::hand::Hand;
use support::redis_cluster::RedisCluster;
use support::redis_server::RedisServer;

fn replica_of(redis: &RedisServer) -> RedisServer {
    let () = Hand::on(redis).say("CONFIG SET repl-diskless-sync-delay 0");
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &redis.port().to_string()]);
    wait_until("the replica's copy", || {
        Hand::on(&replica).say::<String>("INFO replication").contains("master_link_status:up")
    });
    replica
}

#[test]
fn nothing_starts_without_a_replica_and_the_skip_has_the_reason_and_the_key_is_free() {
    let redis = RedisServer::start();
    let url = format!("{}?wait_replicas=1", redis.url());
    let mut server = serve(&url).set("WORKER_EVERY", "2s").set("WORKER_TTL", 12_000).start();
    let skip = server.wait_for_log("not_replicated");
    assert!(skip.contains("only 0 of 1 replicas have the lease"), "{skip}");
    server.order("shutdown");
    server.wait_for("down");
    assert_eq!(server.steps().len(), 0);
    let hand = Hand::on(&redis);
    assert_eq!((hand.lock(), hand.history().current), (None, None));
    assert!(hand.mark().is_some(), "ticks were won");
}

#[test]
fn lease_that_ends_before_the_grace_starts_nothing_and_the_skip_has_the_reason() {
    let redis = RedisServer::start();
    let url = format!("{}?wait_replicas=1", redis.url());
    let orders = serve(&url).set("WORKER_EVERY", "7s").set("WORKER_TTL", 1000).set("WORKER_GRACE", 6000);
    let server = orders.start();
    let skip = server.wait_for_log("not_replicated");
    assert!(skip.contains("only 0 of 1 replicas have the lease"), "{skip}");
    assert_eq!(server.steps().len(), 0);
}

#[test]
fn jobs_start_with_a_replica_and_again_when_it_comes_back() {
    let redis = RedisServer::start();
    let replica = replica_of(&redis);
    let url = format!("{}?wait_replicas=1", redis.url());
    let server = serve(&url).set("WORKER_EVERY", "1s").start();
    server.wait_for("run end");
    drop(replica);
    let line = server.wait_for_log("not_replicated");
    let before = server.told().iter().position(|told| told.ends_with(&line)).expect("the line");
    let _replica = replica_of(&redis);
    wait_for("a run", || server.told().iter().skip(before).find(|told| told.starts_with("run end")).cloned());
}

#[test]
fn manual_run_waits_for_a_replica() {
    let redis = RedisServer::start();
    let url = format!("{}?wait_replicas=1", redis.url());
    let mut server = serve(&url).set("WORKER_EVERY", "0 0 1 1 *").start();
    server.wait_for("ready");
    server.order("run_now import");
    let answer = server.wait_for("run_now");
    assert!(answer.contains("NotReplicated"), "{answer}");
    wait_until("the key to be free", || Hand::on(&redis).lock().is_none());
    let _replica = replica_of(&redis);
    server.order("run_now import");
    wait_for("a run by hand", || {
        server.told().into_iter().find(|line| line.starts_with("run_now ran succeeded"))
    });
}

#[tokio::test]
async fn a_claim_that_is_repeated_is_won_as_soon_as_a_replica_has_it() {
    let redis = RedisServer::start();
    let open = || RedisStore::open(&redis.url(), None).expect("a URL").with_wait_replicas(1);
    let (store, subject) = (Client::new(open()), Subject::new(open()));
    let claim = claim_now("a", LONG);
    for _ in 0..2 {
        let error = store.claim("k", &claim).await.expect_err("no replica");
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
    }
    let other = store.claim("k", &claim_now("b", LONG)).await.expect("an answer").reply.decision;
    assert!(matches!(other, ClaimDecision::Held(_)), "{other:?}");
    let replica = tokio::task::spawn_blocking(move || {
        let replica = replica_of(&redis);
        (redis, replica)
    });
    let (_redis, replica) = replica.await.expect("a replica");
    let won = Bench::with_key(&subject, "k").claim(&claim).await;
    assert!(matches!(won, ClaimDecision::Won(_)), "{won:?}");
    let token: String =
        redis::cmd("GET").arg("lock:k").query_async(&mut replica.client().await).await.expect("a copy");
    assert_eq!(*token, *claim.token);
}

/// A master that was cut off may have a successor, which knows nothing of what it still confirms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_on_a_master_without_its_replica_is_not_confirmed() {
    let redis = RedisServer::start();
    let replica = tokio::task::block_in_place(|| replica_of(&redis));
    let client = Client::new(RedisStore::open(&redis.url(), None).expect("a URL").with_wait_replicas(1));
    let claim = claim_now("a", LONG);
    let mut won = loop {
        match client.acquire("k", &claim).await {
            Err(error) if error.kind() == StoreErrorKind::NotReplicated => {}
            won => break won.expect("an answer").expect("the key is free"),
        }
    };
    confirmed(&mut won).await;

    drop(replica);
    for _ in 0..2 {
        // The second one looks first.
        let error = won.extend().await.expect_err("nobody confirms");
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        assert!(error.to_string().contains("only 0 of 1 replicas have the lease"), "{error}");
    }
    let error = client.extend("k", &won.lease).await.expect_err("nobody confirms");
    assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");

    let _replica = tokio::task::block_in_place(|| replica_of(&redis));
    confirmed(&mut won).await;
}

/// Extends until a replica has it: one that is there may take a while to say so.
async fn confirmed(won: &mut AcquiredLease) {
    let kept = loop {
        match won.extend().await {
            Err(error) if error.kind() == StoreErrorKind::NotReplicated => {}
            kept => break kept.expect("an answer"),
        }
    };
    assert!(matches!(kept, ExtendReply::Kept { .. }), "{kept:?}");
}

/// So a run ends on the old master before its lease does on the new one.
#[test]
fn a_run_on_a_master_that_lost_its_replica_is_cancelled_before_its_lease_is_over() {
    let redis = RedisServer::start();
    let replica = replica_of(&redis);
    let url = format!("{}?wait_replicas=1", redis.url());
    let orders = serve(&url).set("WORKER_EVERY", "1s").set("WORKER_TTL", 6000).set("WORKER_STEPS", 600);
    let server = orders.start();
    server.wait_for("run step");
    let run = server.steps().into_iter().find(|step| step.what == "start").expect("a run");
    drop(replica);
    let cut_off = Timestamp::now();
    server.wait_for_log("lease_lost");
    let last = server.steps().into_iter().rfind(|step| step.fence == run.fence).expect("its steps");
    assert!(last.what == "step" && last.at > cut_off, "{last:?}");
    // The last extension that the replica had was sent before it was gone.
    assert!(last.at < cut_off + Duration::from_secs(6), "it went on for {:?}", last.at.since(cut_off));
}

/// Each node of a cluster has one replica: it can confirm one, and never two.
#[tokio::test]
async fn the_replicas_of_a_clusters_node_are_those_of_the_jobs_slot() {
    let redis = tokio::task::spawn_blocking(RedisCluster::shared).await.expect("a cluster");
    let open = |replicas| {
        RedisStore::open(&redis.url(""), Some("replicas")).expect("a URL").with_wait_replicas(replicas)
    };
    let (one, two) = (Subject::new(open(1)), Client::new(open(2)));
    for number in 0..10 {
        let key = format!("job{number}");
        let error = two.claim(&key, &claim_now("a", LONG)).await.expect_err("there is one replica");
        assert!(error.to_string().contains("only 1 of 2 replicas have the lease"), "{error}");
        let key = format!("another{number}");
        Bench::with_key(&one, &key).win(&claim_now("a", LONG)).await;
    }
}
