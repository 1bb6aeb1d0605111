//! Locks during a shutdown.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::Job;
use jobs::locks::LockError;
use tokio::time::Instant;

use crate::kit::{secs, servers};

#[tokio::test(start_paused = true)]
async fn leaked_guard_delays_a_shutdown_by_the_grace_at_most() {
    let mut fleet = servers(2).shutdown_grace(secs(20)).start().await.unwrap();
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    let begun = Instant::now();
    let lost_after = tokio::spawn(async move {
        guard.lost().await;
        let after = begun.elapsed();
        (guard, after)
    });
    fleet.shut_down(0).await;
    assert!((20..21).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let (guard, after) = lost_after.await.unwrap();
    assert!(after >= secs(20), "kept alive for the grace: {after:?}");
    let next = fleet.server(0).lock("k").acquire().await.unwrap();
    let free_after = begun.elapsed();
    assert!(
        free_after > secs(20) && free_after <= Duration::from_millis(30_500),
        "left to expire: {free_after:?}"
    );
    assert!(next.fence() > guard.fence());
    assert!(matches!(guard.release().await, Err(LockError::ShutDown { .. })));
}

#[tokio::test(start_paused = true)]
async fn lost_lock_does_not_delay_a_shutdown() {
    let mut fleet = servers(2).shutdown_grace(secs(20)).start().await.unwrap();
    let guard = fleet.server(0).lock("k").ttl("2s").keep_alive(false).acquire().await.unwrap();
    guard.lost().await;
    let begun = Instant::now();
    fleet.shut_down(0).await;
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_when_the_last_guard_is_released() {
    let mut fleet = servers(2).shutdown_grace(secs(20)).start().await.unwrap();
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    let begun = Instant::now();
    let released = tokio::spawn(async move {
        tokio::time::sleep(secs(15)).await;
        guard.release().await
    });
    fleet.shut_down(0).await;
    assert_eq!(begun.elapsed().as_secs(), 15);
    released.await.unwrap().expect("held until then, longer than its ttl");
    assert!(fleet.server(0).lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn locked_code_is_dropped_and_its_lock_released_when_the_grace_is_over() {
    let mut fleet = servers(2).shutdown_grace(secs(20)).start().await.unwrap();
    let running = tokio::spawn(fleet.server(0).lock("k").ttl("10s").run(|run| async move {
        run.stopping().await;
        std::future::pending::<()>().await;
    }));
    fleet.run_for(secs(1)).await;
    let begun = Instant::now();
    fleet.shut_down(0).await;
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert!(matches!(running.await.unwrap(), Err(LockError::ShutDown { .. })));
    assert!(fleet.server(0).lock("k").try_acquire().await.unwrap().is_some(), "released, not left to expire");
    assert_eq!(fleet.history("k").await.runs, [], "a manual lock leaves no record of a run");
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_do_not_delay_a_shutdown() {
    let mut fleet = servers(2).shutdown_grace(secs(20)).start().await.unwrap();
    let _guard = fleet.server(1).lock("k").acquire().await.unwrap();
    let lock = fleet.server(0).lock("k");
    let waiting = tokio::spawn(lock.clone().acquire());
    fleet.run_for(secs(1)).await;
    let begun = Instant::now();
    fleet.shut_down(0).await;
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    assert!(matches!(lock.acquire().await, Err(LockError::ShutDown { .. })), "nor begin");
    drop(waiting);
}

/// On the server's own thread, as in production.
#[test]
fn guard_dropped_with_its_runtime_is_released() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let url = "memory://dropped-with-its-runtime";
    let start = || jobs::builder().without_jobs().url(url).start_all();
    let jobs = first.block_on(start()).unwrap();
    let other = second.block_on(start()).unwrap();
    let (held, holds) = std::sync::mpsc::channel();
    let lock = jobs.lock("k").ttl("60s");
    drop(first.spawn(async move {
        let guard = lock.acquire().await.unwrap();
        held.send(()).unwrap();
        std::future::pending::<()>().await;
        drop(guard);
    }));
    holds.recv().unwrap();
    assert!(second.block_on(other.lock("k").try_acquire()).unwrap().is_none());
    first.shutdown_background();
    let next = second.block_on(other.lock("k").wait("20s").acquire());
    assert!(next.is_ok(), "long before its ttl: {next:?}");
    second.block_on(async {
        drop(next);
        jobs.shutdown().await;
        other.shutdown().await;
    });
}

#[tokio::test]
async fn guard_can_outlive_its_server() {
    let jobs =
        jobs::builder().without_jobs().url("memory://outlived").shutdown_grace(Duration::from_millis(100));
    let jobs = jobs.start_all().await.unwrap();
    let (dropped, asked) = (jobs.lock("a").acquire().await.unwrap(), jobs.lock("b").acquire().await.unwrap());
    let lock = jobs.lock("c");
    jobs.shutdown().await;
    assert!(dropped.is_lost() && asked.is_lost());
    asked.lost().await;
    assert!(matches!(asked.confirm().await, Err(LockError::ShutDown { .. })));
    assert!(matches!(asked.release().await, Err(LockError::ShutDown { .. })));
    drop(dropped);
    assert!(matches!(lock.acquire().await, Err(LockError::ShutDown { .. })));
}

/// The application's only thread is blocked for longer than the lease.
#[tokio::test]
async fn lock_is_kept_alive_while_code_blocks_the_runtime() {
    let jobs = jobs::builder().without_jobs().url("memory://blocked").start_all().await.unwrap();
    let guard = jobs.lock("k").ttl("1s").acquire().await.unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    jobs.shutdown().await;
}

#[tokio::test]
async fn runs_and_guards_do_not_keep_the_state_alive_after_a_shutdown() {
    let (state, kept) = (Arc::new(()), Arc::new(Mutex::new(None)));
    let keeping = kept.clone();
    let job = Job::builder("job")
        .every("100ms")
        .run(move |run| {
            *keeping.lock().unwrap() = Some(run);
            std::future::ready(())
        })
        .build()
        .unwrap();
    let builder = jobs::builder().without_annotated().url("memory://outlived").state(state.clone()).job(job);
    let jobs = builder.shutdown_grace(Duration::from_millis(10)).start_all().await.unwrap();
    let guard = jobs.lock("k").acquire().await.unwrap();
    while kept.lock().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(Arc::strong_count(&state) > 1);
    jobs.shutdown().await;
    drop(jobs);
    let gone = async {
        while Arc::strong_count(&state) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await; // the scheduler's thread is about to end
        }
    };
    tokio::time::timeout(secs(10), gone).await.expect("the state is dropped");
    drop((guard, kept));
}
