//! Whoever waits for a key hears that it was freed, on every store that can tell.

use jobs::history::RunOutcome;
use jobs::store::ClaimPurpose;
use jobs::store::redis::RedisStore;
use jobs::testing::store::Subject;
use support::bench::{Bench, LONG, claim_what, holder};
use support::redis_server::RedisServer;
use support::{file_subject, postgres_subject, subject, topology_subject};

async fn hears_of_releases_and_breaks(subject: Subject) {
    let bench = Bench::of(&subject);
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        for breaks in [false, true] {
            let lease = bench.win(&claim_what("a", LONG, what.clone())).await;
            // The slots of a key have a record of their own.
            let record = if matches!(what, ClaimPurpose::Slot(_)) {
                bench.on("import-products#slots")
            } else {
                bench.clone()
            };
            let mut listener = record.listen().await.expect("a store that can tell");
            holder(bench.claim(&claim_what("b", LONG, what.clone())).await);
            if breaks {
                bench.break_lock().await;
            } else {
                bench.release(&lease, RunOutcome::Succeeded).await;
            }
            let heard = tokio::time::timeout(LONG, listener.notified()).await;
            assert_eq!(heard, Ok(true), "{what:?}, breaks: {breaks}");
        }
    }
}

#[tokio::test]
async fn memory_store_notifies_of_a_release() {
    hears_of_releases_and_breaks(subject::memory().await).await;
}

#[tokio::test]
async fn redis_store_notifies_of_a_release() {
    hears_of_releases_and_breaks(subject::redis().await).await;
}

#[tokio::test]
async fn redis_store_behind_sentinels_notifies_of_a_release() {
    hears_of_releases_and_breaks(topology_subject::sentinel().await).await;
}

#[tokio::test]
async fn redis_cluster_store_notifies_of_a_release_from_every_node() {
    let subject = topology_subject::cluster().await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let bench = Bench::with_key(&subject, key);
        let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
        let mut listener = bench.listen().await.expect("a store that can tell");
        holder(bench.claim(&claim_what("b", LONG, ClaimPurpose::Lock)).await);
        bench.release(&lease, RunOutcome::Succeeded).await;
        assert_eq!(tokio::time::timeout(LONG, listener.notified()).await, Ok(true), "{key}");
    }
}

#[tokio::test]
async fn postgres_store_notifies_of_a_release() {
    hears_of_releases_and_breaks(postgres_subject::postgres().await).await;
}

#[tokio::test]
async fn file_store_reports_that_it_cannot_notify() {
    let subject = file_subject::file().await;
    assert!(Bench::of(&subject).listen().await.is_none());
}

/// How often Redis has published something.
async fn published(server: &RedisServer) -> usize {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut server.client().await)
        .await
        .expect("statistics");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number"))
}

#[tokio::test]
async fn release_of_a_key_that_no_caller_listens_to_publishes_nothing() {
    let server = RedisServer::start();
    let subject = Subject::new(RedisStore::open(&server.url(), None).expect("a URL"));
    let bench = Bench::of(&subject);
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(published(&server).await, 0);
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    let _listener = bench.listen().await.expect("a store that can tell");
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(published(&server).await, 1, "the control: with a listener it does");
}

#[tokio::test]
async fn subscription_reports_its_lost_connection_and_a_new_one_is_notified_again() {
    let server = RedisServer::start();
    let store = RedisStore::open(&server.url(), None).expect("a URL");
    let subject = Subject::new(store);
    let bench = Bench::of(&subject);
    let mut listener = bench.listen().await.expect("a store that can tell");
    let mut plain = server.client().await;
    let killed: u32 =
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query_async(&mut plain).await.expect("killed");
    assert_eq!(killed, 1);
    assert_eq!(tokio::time::timeout(LONG, listener.notified()).await, Ok(false), "it hears nothing any more");
    hears_of_releases_and_breaks(subject).await;
}

#[tokio::test]
async fn redis_user_without_permission_to_subscribe_polls_instead() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let mut user = redis::cmd("ACL");
    user.arg(&["SETUSER", "deaf", "on", ">secret", "~*", "+@all", "-subscribe", "-publish"]);
    let () = user.query_async(&mut plain).await.expect("a user");
    let url = format!("redis://deaf:secret@127.0.0.1:{}", server.port());
    let subject = Subject::new(RedisStore::open(&url, None).expect("a URL"));
    let bench = Bench::of(&subject);
    assert!(bench.listen().await.is_none());
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    let waiting = claim_what("b", LONG, ClaimPurpose::Lock);
    holder(bench.claim(&waiting).await);
    bench.release(&lease, RunOutcome::Succeeded).await; // does not fail for want of a permission
    bench.win(&waiting).await;
}
