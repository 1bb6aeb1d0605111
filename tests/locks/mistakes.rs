//! Invalid options are refused before a request to the store, with a message that says how to fix them.

use std::time::Duration;

use jobs::locks::{LockError, OnceError};

use super::kit::fleet;

#[allow(clippy::needless_pass_by_value, reason = "callers pass the error on")]
fn message(error: LockError) -> String {
    assert!(matches!(error, LockError::Invalid { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn duration_without_a_unit_is_refused() {
    let fleet = fleet(1).await;
    let jobs = fleet.server(0);
    let expected = "invalid `ttl` \"10\": expected a number with a unit, as in \"60s\" or \"5m\"";
    assert_eq!(message(jobs.lock("k").ttl("10").acquire().await.unwrap_err()), expected);
    assert_eq!(message(jobs.lock("k").ttl(String::from("10")).try_acquire().await.unwrap_err()), expected);
    assert_eq!(message(jobs.leader("k").ttl("10").campaign().unwrap_err()), expected);
    assert_eq!(message(jobs.semaphore("k", 1).ttl("10").run(|_| async {}).await.unwrap_err()), expected);
    assert!(
        message(jobs.lock("k").wait("soon").run(|_| async {}).await.unwrap_err())
            .starts_with("invalid `wait` \"soon\"")
    );
    let guard = jobs.lock("k").acquire().await.unwrap();
    assert_eq!(message(guard.extend("10").await.unwrap_err()), expected);
}

#[tokio::test(start_paused = true)]
async fn ttl_out_of_range_is_refused() {
    let fleet = fleet(1).await;
    let jobs = fleet.server(0);
    assert_eq!(
        message(jobs.lock("k").ttl("500ms").acquire().await.unwrap_err()),
        "`ttl` \"500ms\" is too short; at least \"1s\""
    );
    let long = jobs.lock("k").ttl(Duration::MAX).acquire().await.unwrap_err();
    assert!(message(long).ends_with("is too long; at most \"7days\""));
    drop(jobs.lock("k").ttl("1s").wait(Duration::MAX).acquire().await.expect("a wait has no upper limit"));
}

#[tokio::test(start_paused = true)]
async fn lock_key_with_a_space_is_refused() {
    let fleet = fleet(1).await;
    let error = fleet.server(0).lock("pay ment").acquire().await.unwrap_err();
    assert!(message(error).starts_with("invalid key \"pay ment\": ' ' is not allowed"));
}

#[tokio::test(start_paused = true)]
async fn semaphore_without_slots_is_refused() {
    let fleet = fleet(1).await;
    let error = fleet.server(0).semaphore("api", 0).try_acquire().await.unwrap_err();
    assert!(message(error).contains("invalid semaphore \"api\": it has no slots"));
}

#[tokio::test(start_paused = true)]
async fn within_out_of_range_is_refused() {
    let fleet = fleet(1).await;
    let once = fleet.server(0).once("k").within("10ms");
    let error = once.run(|_| async { Ok::<_, String>(()) }).await.unwrap_err();
    let OnceError::Lock(error) = error else { panic!("{error}") };
    assert_eq!(message(error), "`within` \"10ms\" is too short; at least \"1s\"");
}
