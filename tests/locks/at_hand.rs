//! The server that `jobs::lock` uses by default.

use std::path::Path;

use jobs::locks::LockError;
use jobs::testing::Fleet;
use jobs::{Job, Run};

use support::child::{Child, role};

use super::kit::{fleet, secs};

#[tokio::test(start_paused = true)]
async fn lock_in_a_job_uses_the_server_of_the_run() {
    let locking = || {
        Job::builder("job")
            .every("60s")
            .run(|_| async {
                let run = Run::current().expect("in a run");
                let guard = jobs::lock("k").acquire().await?;
                assert_eq!(guard.server(), run.server());
                jobs::semaphore("s", 1)
                    .run(|inner| async move { assert_eq!(inner.server(), run.server()) })
                    .await?;
                Ok::<_, LockError>(())
            })
            .build()
            .unwrap()
    };
    let fleet = Fleet::of(3).job(locking).start().await.unwrap();
    fleet.run_for(secs(610)).await;
    let history = fleet.history("job").await;
    assert_eq!((history.stats.successes, history.stats.failures), (10, 0), "{:?}", history.runs);
}

/// Acquires a lock without a handle. Returns the server that held it.
async fn deep() -> String {
    tokio::task::yield_now().await;
    let guard = jobs::lock("k").acquire().await.unwrap();
    let name = guard.server().to_owned();
    guard.release().await.unwrap();
    name
}

#[tokio::test(start_paused = true)]
async fn lock_in_a_scope_uses_the_server_of_the_scope() {
    let fleet = fleet(2).await;
    for number in [1, 0] {
        assert_eq!(fleet.server(number).scope(deep()).await, format!("server-{number}"));
    }
    let (one, other) = tokio::join!(fleet.server(0).scope(deep()), fleet.server(1).scope(deep()));
    assert_eq!((one.as_str(), other.as_str()), ("server-0", "server-1"));
    let inner = fleet.server(0).scope(async { (fleet.server(1).scope(deep()).await, deep().await) }).await;
    assert_eq!(inner, ("server-1".to_owned(), "server-0".to_owned()));
}

/// Runs in a process of its own, where no other test starts a server.
#[tokio::test]
async fn lock_without_a_handle_needs_exactly_one_server_in_the_process() {
    const ENTRY: &str = "at_hand::lock_without_a_handle_needs_exactly_one_server_in_the_process";
    if role().is_none() {
        let mut child = Child::spawn(ENTRY, "alone", Path::new("nowhere"));
        child.expect("all is well");
        return;
    }
    let start = || jobs::builder().without_jobs().url("memory://at-hand").start_all();
    let error = jobs::lock("k").acquire().await.unwrap_err();
    assert!(
        matches!(error, LockError::NoServer { started: 0, .. }) && error.to_string().contains("without_jobs")
    );
    let only = start().await.unwrap();
    let guard = jobs::lock("k").acquire().await.unwrap();
    assert_eq!(guard.server(), only.server_id());
    let second = start().await.unwrap();
    let error = jobs::once("k").run(|_| async { Ok::<_, String>(()) }).await.unwrap_err();
    assert!(error.to_string().contains("2 servers") && error.to_string().contains("scope"), "{error}");
    assert!(matches!(jobs::leader("l").campaign(), Err(LockError::NoServer { started: 2, .. })));
    guard.release().await.unwrap();
    only.shutdown().await;
    let guard = jobs::lock("k").acquire().await.expect("one server has shut down");
    assert_eq!(guard.server(), second.server_id());
    guard.release().await.unwrap();
    second.shutdown().await;
    support::child::tell("all is well");
}
