//! A real Redis server with each fault, and one without any.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::StartError;
use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::Store;
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::{builder, door, found_by, only};
use support::redis_cluster::add_slots;
use support::redis_server::{PATIENCE, RedisServer};

fn open(url: &str) -> RedisStore {
    RedisStore::open(url, None).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

async fn raw<T: redis::FromRedisValue>(client: &mut MultiplexedConnection, command: &str) -> T {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().expect("a command"));
    cmd.arg(words.collect::<Vec<_>>()).query_async(client).await.expect(command)
}

/// A server that keeps what it acknowledged.
fn durable() -> RedisServer {
    RedisServer::start_with(&["--appendonly", "yes"])
}

/// Asks until the server's `INFO` says so.
async fn wait_for(client: &mut MultiplexedConnection, command: &str, line: &str) {
    let give_up = Instant::now() + PATIENCE;
    while !raw::<String>(client, command).await.lines().any(|said| said == line) {
        assert!(Instant::now() < give_up, "waited in vain for {line}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_durable_server_gives_no_finding() {
    let server = durable();
    assert_eq!(found_by(&open(&server.url()), &["import"]).await, []);
    let jobs = builder(&server.url(), 60).start_all().await.expect("a healthy server");
    assert_eq!(jobs.diagnose().await.expect("it answers"), []);
    jobs.shutdown().await;
}

#[tokio::test]
async fn report_of_an_eviction_policy_depends_on_the_keys_it_evicts() {
    let server = durable();
    let store = open(&server.url());
    let mut plain = server.client().await;
    for (policy, harm) in
        [("volatile-lru", "a second holder gets in"), ("allkeys-lru", "start a second time")]
    {
        let () = raw(&mut plain, &format!("CONFIG SET maxmemory-policy {policy}")).await;
        let findings = found_by(&store, &[]).await;
        only(&findings, FindingKind::Evicts, Severity::Warning, &[policy, harm, "set it to noeviction"]);
    }
}

#[tokio::test]
async fn server_without_persistence_is_reported_and_one_with_snapshots_is_not() {
    let server = RedisServer::start();
    let (store, mut plain) = (open(&server.url()), server.client().await);
    let findings = found_by(&store, &[]).await;
    only(&findings, FindingKind::NotDurable, Severity::Warning, &["run again", "set appendonly to yes"]);
    let () = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query_async(&mut plain).await.unwrap();
    assert_eq!(found_by(&store, &[]).await, []);
}

#[tokio::test]
async fn a_primary_with_replicas_may_lose_a_claim_and_a_replica_decides_nothing() {
    let primary = durable();
    let port = primary.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
    wait_for(&mut primary.client().await, "INFO replication", "connected_slaves:1").await;
    let findings = found_by(&open(&primary.url()), &[]).await;
    only(&findings, FindingKind::LosesOnFailover, Severity::Warning, &["1 replica(s)", "run.fence()"]);

    let findings = found_by(&open(&replica.url()), &[]).await;
    let names_the_primary = format!("a replica of 127.0.0.1:{port}");
    only(
        &findings,
        FindingKind::NotPrimary,
        Severity::Error,
        &[&names_the_primary, "point the URL to the primary"],
    );

    let Err(error) = builder(&replica.url(), 60).start_all().await else { panic!("it started on a replica") };
    let StartError::Unfit { source, store, findings } = &error else { panic!("{error}") };
    assert_eq!((source.as_str(), store, findings.len()), ("the builder's `url`", &replica.url(), 1));
    for part in
        ["the builder's `url`", &replica.url(), "point the URL to the primary", "allow_degraded_start()"]
    {
        assert!(error.to_string().contains(part), "\"{part}\" is not in \"{error}\"");
    }
    let jobs = builder(&replica.url(), 60).allow_degraded_start().start_all().await.expect("it was told to");
    only(&jobs.diagnose().await.expect("it answers"), FindingKind::NotPrimary, Severity::Error, &[]);
    jobs.shutdown().await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_an_error_as_soon_as_it_is_not_alone() {
    let start = || RedisServer::start_with(&["--appendonly", "yes", "--cluster-enabled", "yes"]);
    let (one, other) = (start(), start());
    let (mut first, mut second) = (one.client().await, other.client().await);
    let () = raw(&mut first, &add_slots(0..=8191)).await;
    let store = Arc::new(open(&one.url()));
    // Not even a look is answered while slots are missing.
    let findings = store.diagnose(&[]).await.expect("a diagnosis");
    only(&findings, FindingKind::ClusterNode, Severity::Warning, &["one node of a cluster"]);

    let () = raw(&mut second, &add_slots(8192..=16383)).await;
    let () = raw(&mut first, &format!("CLUSTER MEET 127.0.0.1 {}", other.port())).await;
    wait_for(&mut first, "CLUSTER INFO", "cluster_size:2").await;
    let findings = store.diagnose(&[]).await.expect("a diagnosis");
    only(&findings, FindingKind::ClusterNode, Severity::Error, &["of 2 nodes", "would never run"]);

    // A start fails at the first look if that is for the other node, and else by the finding.
    wait_for(&mut first, "CLUSTER INFO", "cluster_state:ok").await;
    wait_for(&mut second, "CLUSTER INFO", "cluster_state:ok").await;
    for node in [&one, &other] {
        let Err(error) = builder(&node.url(), 60).start_all().await else { panic!("it started") };
        let said = error.to_string();
        assert!(
            said.contains("one node of a cluster") && said.contains("write redis+cluster:// instead"),
            "{said}"
        );
    }

    // Looks at the same time share a request. One at a key of the other node fails, and no other one.
    let keys: Vec<_> = (0..20).map(|number| format!("key-{number}")).collect();
    let mut looks = JoinSet::new();
    for key in keys {
        let slot: u16 = raw(&mut first, &format!("CLUSTER KEYSLOT lock:{key}")).await;
        let store = store.clone();
        looks.spawn(async move { (slot, store.look(&key).await) });
    }
    let (mut own, mut foreign) = (0, 0);
    while let Some(looked) = looks.join_next().await {
        let (slot, look) = looked.expect("no panic");
        assert_eq!(look.is_ok(), slot <= 8191, "slot {slot}: {look:?}");
        *(if slot <= 8191 { &mut own } else { &mut foreign }) += 1;
    }
    assert!(own > 0 && foreign > 0, "{own} keys on this node, {foreign} on the other one");
}

#[tokio::test]
async fn states_that_another_version_or_another_program_wrote_are_named() {
    let server = durable();
    let mut plain = server.client().await;
    let () =
        raw(&mut plain, r#"SET {lock:newer}:state {"version":"7-7","fence":7,"state":{"format":4}}"#).await;
    let () = raw(&mut plain, "HSET {lock:older}:state format 1 fence 7").await;
    let () = raw(&mut plain, "SET {lock:foreign}:state text").await;
    let () =
        raw(&mut plain, r#"SET {lock:elsewhere}:state {"version":"7-7","fence":7,"state":{"format":4}}"#)
            .await;
    let () = raw(
        &mut plain,
        r#"SET {lock:ours}:state {"version":"7-0123456789abcdef","fence":7,"state":{"format":3}}"#,
    )
    .await;
    let findings = found_by(&open(&server.url()), &["foreign", "new", "newer", "older", "ours"]).await;
    let says = ["the state of foreign, newer, older was written by another version", "upgrade this server"];
    only(&findings, FindingKind::Unreadable, Severity::Warning, &says);
}

#[tokio::test]
async fn ten_thousand_jobs_are_looked_at_in_a_few_round_trips() {
    let server = durable();
    let () = raw(
        &mut server.client().await,
        r#"SET {lock:job-9999}:state {"version":"7-7","fence":7,"state":{"format":4}}"#,
    )
    .await;
    let slow = door::to(server.port(), Duration::from_millis(20), door::unchanged, door::unchanged).await;
    let store = open(&format!("redis://{slow}"));
    let keys: Vec<_> = (0..10_000).map(|number| format!("job-{number:04}")).collect();
    let mut keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let begun = Instant::now();
    only(&found_by(&store, &keys).await, FindingKind::Unreadable, Severity::Warning, &["of job-9999 was"]);
    let took = begun.elapsed();
    println!("{took:?} for 10,000 jobs");
    assert!(took < Duration::from_secs(60), "one after the other would take 200 s, this took {took:?}");

    keys.push("one-more");
    let findings = found_by(&store, &keys).await;
    let remark = findings.last().expect("a remark");
    assert_eq!((remark.kind, remark.severity), (FindingKind::NotChecked, Severity::Note), "{findings:?}");
    assert!(remark.message.contains("of 10001 jobs the states of the first 10000"), "{remark}");
}

#[tokio::test]
async fn setting_that_may_not_be_read_is_a_note() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    for (more, says) in [("", "may not run INFO"), (" +info", "may not run CONFIG GET")] {
        let () =
            raw(&mut plain, &format!("ACL SETUSER app reset on >secret ~* +time +get +pttl{more}")).await;
        let store = open(&format!("redis://app:secret@127.0.0.1:{}", server.port()));
        only(&found_by(&store, &["import"]).await, FindingKind::NotChecked, Severity::Note, &[says]);
    }
    let () = raw(&mut plain, "ACL SETUSER app +config|get").await;
    let store = open(&format!("redis://app:secret@127.0.0.1:{}", server.port()));
    only(&found_by(&store, &["import"]).await, FindingKind::NotDurable, Severity::Warning, &[]);
}
