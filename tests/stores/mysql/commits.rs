//! Commits that are not confirmed, and primaries that are demoted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use jobs::store::{Store, StoreErrorKind};
use mysql_async::prelude::Queryable;
use support::mariadb_server::MariadbServer;
use support::postgres_server::PATIENCE;
use tokio::net::{TcpListener, TcpStream};

use super::{KEY, apply, started_with, store_at, swap_from};

/// A commit that was interrupted may have been applied: it is not taken for one that another session has prevented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_commit_is_an_error_and_is_not_repeated() {
    let server = started_with(&[]).await;
    let store = Arc::new(store_at(&server.url(), "shop"));
    let first = apply(&*store, &swap_from(None)).await;
    let mut backup = server.client().await;
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        backup.query_drop(format!("BACKUP STAGE {stage}")).await.expect("a stage");
    }
    let swapping = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.swap(KEY, &swap_from(Some(first.version))).await }
    });
    let mut administrator = server.client().await;
    let commits = "SELECT id FROM information_schema.processlist WHERE user = 'jobs' AND info LIKE 'COMMIT%'
        AND state LIKE 'Waiting%'";
    let mut killed = 0;
    while !swapping.is_finished() {
        if let Some(id) = administrator.query_first::<u64, _>(commits).await.expect("an answer") {
            administrator.query_drop(format!("KILL QUERY {id}")).await.expect("an end");
            killed += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    backup.query_drop("BACKUP STAGE END").await.expect("the end");
    let error = swapping.await.expect("no panic").expect_err("it was interrupted");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("the commit was not confirmed"), "{error}");
    assert!(killed > 0);
    let look = store.look(KEY).await.expect("a look");
    apply(&*store, &swap_from(look.version)).await;
}

/// An address that leads to one server after the other.
async fn address(port: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("its address").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = port.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    own
}

/// Both of its connections are dropped, also the one that has not met it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_primary_are_all_dropped() {
    let (old, new): (MariadbServer, _) = (started_with(&[]).await, started_with(&[]).await);
    let port = Arc::new(AtomicU16::new(old.port()));
    let through = address(Arc::clone(&port)).await;
    let url = old.url().replace(&format!(":{}", old.port()), &format!(":{through}"));
    let store = store_at(&url, "shop").with_timeouts(PATIENCE, PATIENCE);
    let first = apply(&store, &swap_from(None)).await;
    assert_eq!(store.look(KEY).await.expect("a look").version, Some(first.version));
    old.client().await.query_drop("SET GLOBAL read_only = 1").await.expect("a setting");
    port.store(new.port(), Ordering::SeqCst);
    let error = store.swap(KEY, &swap_from(Some(first.version))).await.expect_err("a demoted primary");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert_eq!(store.look(KEY).await.expect("a look at the new primary").version, None);
}

/// A user who may write to a server that is read-only commits after it was demoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_on_a_primary_that_is_demoted_before_it_is_an_error() {
    let server = started_with(&[]).await;
    let store = store_at(&server.url_of("admin"), "shop");
    let mut version = apply(&store, &swap_from(None)).await.version;
    let mut client = server.client().await;
    // The answer to the first message of a swap shows the setting; it changes before the second one now and then.
    let (mut unacknowledged, mut rounds) = (0, 0);
    while unacknowledged < 3 {
        rounds += 1;
        assert!(rounds < 2_000, "no swap was applied by a demoted server, or it was acknowledged");
        let swap = swap_from(Some(version));
        let demotion = async {
            tokio::task::yield_now().await;
            client.query_drop("SET GLOBAL read_only = 1").await.expect("a setting");
        };
        let (swapped, ()) = tokio::join!(store.swap(KEY, &swap), demotion);
        let applied = server.client().await.query_first::<String, _>("SELECT version FROM job_lock").await;
        client.query_drop("SET GLOBAL read_only = 0").await.expect("a setting");
        let applied = applied.expect("an answer").expect("a row").ends_with(&format!("{:016x}", swap.nonce));
        unacknowledged += u32::from(swapped.is_err() && applied);
        version = store.look(KEY).await.expect("a look").version.expect("a record");
    }
    println!("{unacknowledged} of {rounds} were applied and not acknowledged");
}
