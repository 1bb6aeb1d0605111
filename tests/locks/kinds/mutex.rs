//! Manual locks.

use jobs::Run;
use jobs::locks::LockError;

use crate::kit::{fleet, millis, secs};

#[tokio::test(start_paused = true)]
async fn lock_has_one_holder_and_is_free_after_its_release() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    assert_eq!((guard.key(), guard.server()), ("k", "server-0"));
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none());
    assert!(fleet.server(0).lock("k").try_acquire().await.unwrap().is_none(), "nor here a second time");
    fleet.run_for(secs(60)).await;
    assert!(!guard.is_lost(), "it is kept alive");
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = fleet.server(1).lock("k").try_acquire().await.unwrap().expect("it is free");
    assert!(next.fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_releases_its_lock_in_the_background() {
    let fleet = fleet(2).await;
    drop(fleet.server(0).lock("k").acquire().await.unwrap());
    let taken = fleet.server(1).lock("k").wait(millis(10)).acquire().await;
    assert!(taken.is_ok(), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn locked_code_borrows_from_its_caller() {
    let fleet = fleet(2).await;
    let mut seen = Vec::new();
    let length = fleet.server(0).lock("k").run(async |run: Run| {
        jobs::assert_locked();
        assert_eq!(Run::current().unwrap().fence(), run.fence());
        assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none());
        tokio::time::sleep(secs(100)).await;
        jobs::assert_locked();
        seen.push(run.fence());
        seen.len()
    });
    assert_eq!(length.await.unwrap(), 1);
    assert_eq!(seen.len(), 1);
    assert!(Run::current().is_none());
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_some(), "released when it returns");
}

#[tokio::test(start_paused = true)]
async fn error_after_a_wait_names_the_holder() {
    let fleet = fleet(2).await;
    let _guard = fleet.server(0).lock("k").acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = fleet.server(1).lock("k").wait("3s").acquire().await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 3);
    let LockError::Held { key, holder, waited } = &error else { panic!("{error}") };
    assert_eq!((key.as_str(), holder.server.as_deref(), waited.as_secs()), ("k", Some("server-0"), 3));
    assert!(error.to_string().contains("\"k\" is held by server-0 for"), "{error}");
}
