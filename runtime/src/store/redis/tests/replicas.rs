//! Waiting for replicas, and the permissions of the store's user.

use super::*;

#[tokio::test]
async fn lease_that_too_few_replicas_have_is_an_error_and_other_swaps_wait_for_none() {
    let server = Server::start(&[]).await;
    let store = server.store().with_wait_replicas(1);
    let look = store.look("key").await.unwrap();
    let lease = Change { grants_lease: true, ..claim(1) };
    let error = store.swap("key", &swap(&look, lease.clone())).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
    let SwapReply::Changed(look) = store.swap("key", &swap(&look, lease)).await.unwrap() else {
        panic!("the swap was applied twice");
    };
    swapped(&store, "key", &swap(&look, claim(2))).await;
}

#[tokio::test]
async fn lease_that_enough_replicas_have_is_won_and_a_replica_takes_none() {
    let primary = Server::start(&[]).await;
    let port = primary.url.rsplit(':').next().unwrap();
    let replica = Server::start(&["--replicaof", "127.0.0.1", port]).await;
    let store = primary.store().with_wait_replicas(1);
    let lease = Change { grants_lease: true, ..claim(1) };
    let begun = std::time::Instant::now();
    loop {
        let look = store.look("key").await.unwrap();
        match store.swap("key", &swap(&look, lease.clone())).await {
            Ok(SwapReply::Swapped(_)) => break,
            Ok(SwapReply::Changed(look)) => panic!("{look:?}"),
            // The replica is not there yet.
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let store = replica.store();
    let look = store.look("key").await.unwrap();
    assert_eq!(look.state, state(1));
    let error = store.swap("key", &swap(&look, lease)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("READONLY"), "{error}");
    let findings = store.diagnose(&[]).await.unwrap();
    assert_eq!(findings[0].kind, FindingKind::NotPrimary, "{findings:?}");
}

/// The permissions that the page lists are enough.
#[tokio::test]
async fn listed_permissions_are_enough() {
    let server = Server::start(&[]).await;
    let docs = include_str!("../../../docs/permissions.md");
    let (_, rules) = docs.split_once("ACL SETUSER jobs on >password").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    let rules: Vec<_> = rules.split_whitespace().collect();
    server.send(&format!("ACL SETUSER jobs on >password {}", rules.join(" "))).await;
    let url = server.url.replace("://", "://jobs:password@");
    let store = RedisStore::open(&url, None).unwrap();
    let look = store.look("key").await.unwrap();
    let until = look.now + Duration::from_secs(60);
    assert!(store.listen("key").await.unwrap().is_some());
    let set_lock = LockChange::Set { token: "token".into(), until };
    let won = Change { lock: set_lock, records: vec![skip(1)], keep: 1, notify: true, ..claim(1) };
    swapped(&store, "key", &swap(&look, won)).await;
    let look = store.look("key").await.unwrap();
    let expiring = Arc::new(KeyState::default());
    let ended = Change { state: Some(expiring), lock: LockChange::Delete, ..Change::default() };
    swapped(&store, "key", &swap(&look, ended)).await;
    assert_eq!(store.records(&["key".to_owned()], 9).await.unwrap()[0].skips.len(), 1);
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, Change::default())).await;
    for ttl in [Duration::from_secs(9), Duration::ZERO] {
        let note = Note { name: "a".to_owned(), text: "b".into() };
        store.put_note(Topic::Servers, &note, ttl).await.unwrap();
        store.notes(Topic::Servers).await.unwrap();
    }
    store.list(None).await.unwrap();
    let findings = store.diagnose(&["key".to_owned()]).await.unwrap();
    assert!(findings.iter().all(|finding| !finding.message.contains("could not be checked")), "{findings:?}");
}

#[tokio::test]
async fn missing_permission_is_named() {
    let server = Server::start(&[]).await;
    server.send("ACL SETUSER jobs on >password ~* &* +@all -set").await;
    let store = RedisStore::open(&server.url.replace("://", "://jobs:password@"), None).unwrap();
    let look = store.look("key").await.unwrap();
    let error = store.swap("key", &swap(&look, claim(1))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("grant +set"), "{error}");
}
