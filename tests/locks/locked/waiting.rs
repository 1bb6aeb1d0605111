//! Callers of a locked function run one at a time; the others are refused or wait.

use std::time::{Duration, Instant};

use jobs::locks::{LockError, NotRun};
use jobs::{Run, locked};

use super::kit::{Gate, server};

#[locked(key = "payment:{order_id}", ttl = "5s")]
async fn charge(order_id: u64, gate: &Gate) -> u64 {
    gate.pass().await;
    order_id
}

#[locked(key = "payment:{order_id}", ttl = "5s", wait = "200ms")]
async fn charge_soon(order_id: u64, gate: &Gate) -> u64 {
    gate.pass().await;
    order_id
}

#[locked(key = "payment:{order_id}", ttl = "5s", wait = "forever")]
async fn charge_in_turn(order_id: u64, gate: &Gate) -> u64 {
    gate.pass().await;
    order_id
}

/// The control: the same function without a lock.
async fn charge_without_a_lock(order_id: u64, gate: &Gate) -> u64 {
    gate.pass().await;
    order_id
}

#[tokio::test]
async fn second_caller_is_refused_with_the_name_of_the_holder() {
    let (one, two) = (server("two").await, server("two").await);
    let gate = Gate::default();
    let first = one.scope(charge(7, &gate));
    let others = async {
        gate.arrival().await;
        let second = two.scope(charge(7, &gate)).await;
        let error = second.unwrap_err();
        let NotRun::Held { key, holder } = &error else { panic!("{error:?}") };
        assert_eq!((key.as_str(), holder.server.as_deref()), ("payment:7", Some(one.server_id())));
        let expected = format!("not run: lock \"payment:7\" is held by {} for ", one.server_id());
        assert!(error.to_string().starts_with(&expected), "{error}");
        gate.open();
    };
    assert_eq!(tokio::join!(first, others).0.ok(), Some(7));
    gate.open();
    assert_eq!(
        two.scope(charge(7, &gate)).await.ok(),
        Some(7),
        "the lock is free when the first call has returned"
    );
    assert_eq!(gate.entered(), 2);
}

#[tokio::test]
async fn without_the_attribute_both_callers_run() {
    let gate = Gate::default();
    let both = async { tokio::join!(charge_without_a_lock(7, &gate), charge_without_a_lock(7, &gate)) };
    let opener = async {
        gate.arrival().await;
        gate.arrival().await;
        gate.open();
        gate.open();
    };
    assert_eq!(tokio::join!(both, opener).0, (7, 7));
}

#[tokio::test]
async fn calls_with_different_values_run_at_the_same_time() {
    let jobs = server("values").await;
    let gate = Gate::default();
    let both = async { tokio::join!(charge(7, &gate), charge(8, &gate)) };
    let opener = async {
        gate.arrival().await;
        gate.arrival().await;
        gate.open();
        gate.open();
    };
    let ((seven, eight), ()) = Box::pin(jobs.scope(async { tokio::join!(both, opener) })).await;
    assert_eq!((seven.ok(), eight.ok()), (Some(7), Some(8)));
}

#[tokio::test]
async fn caller_waits_for_as_long_as_its_wait_allows() {
    let jobs = server("wait").await;
    let _guard = jobs.lock("payment:7").acquire().await.unwrap();
    let gate = Gate::default();
    let begun = Instant::now();
    let waited = jobs.scope(charge_soon(7, &gate)).await;
    assert!(matches!(waited, Err(NotRun::Held { .. })), "{waited:?}");
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(gate.entered(), 0);
}

#[tokio::test]
async fn callers_that_wait_without_a_limit_run_one_after_the_other() {
    let jobs = server("turns").await;
    let gate = Gate::default();
    let both = async { tokio::join!(charge_in_turn(7, &gate), charge_in_turn(7, &gate)) };
    let opener = async {
        gate.arrival().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(gate.entered(), 1, "the second waits for the first");
        gate.open();
        gate.arrival().await;
        gate.open();
    };
    let ((one, two), ()) = Box::pin(jobs.scope(async { tokio::join!(both, opener) })).await;
    assert!(one.is_ok() && two.is_ok());
}

#[tokio::test]
async fn locked_function_and_manual_lock_of_the_same_key_exclude_each_other() {
    let jobs = server("manual").await;
    let _guard = jobs.lock("payment:7").acquire().await.unwrap();
    let gate = Gate::default();
    gate.open();
    assert!(matches!(jobs.scope(charge(7, &gate)).await, Err(NotRun::Held { .. })));
    assert!(jobs.scope(charge(8, &gate)).await.is_ok());
}

#[locked(key = "countdown", wait = "100ms")]
async fn countdown(left: u32) -> Option<bool> {
    match left {
        0 => None,
        _ => Some(Box::pin(countdown(left - 1)).await.is_ok()),
    }
}

#[tokio::test]
async fn recursive_call_finds_its_own_lock_held() {
    let jobs = server("reentrant").await;
    assert_eq!(jobs.scope(countdown(1)).await.ok(), Some(Some(false)));
}

#[locked(key = "fenced")]
async fn fenced() -> i64 {
    jobs::assert_locked();
    tokio::task::yield_now().await;
    Run::current().unwrap().fence()
}

#[tokio::test]
async fn locked_function_has_a_current_run_with_a_growing_fence() {
    let jobs = server("fenced").await;
    let first = jobs.scope(fenced()).await.unwrap();
    let second = jobs.scope(fenced()).await.unwrap();
    assert!(second > first);
    assert!(Run::current().is_none());
}

#[locked(key = "short", ttl = "1s", keep_alive = false)]
async fn not_kept_alive() {
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn locked_function_is_dropped_when_its_lock_is_lost() {
    let jobs = server("lost").await;
    let lost = jobs.scope(not_kept_alive()).await;
    assert!(matches!(lost, Err(NotRun::Lock(LockError::Lost { .. }))), "{lost:?}");
}

#[tokio::test]
async fn without_a_default_server_a_locked_function_does_not_run() {
    // Two servers, so that it does not matter how many the other tests have started.
    let _others = (server("ended").await, server("ended").await);
    let gate = Gate::default();
    let failed = charge(7, &gate).await;
    assert!(matches!(failed, Err(NotRun::Lock(LockError::NoServer { .. }))), "{failed:?}");
    assert_eq!(gate.entered(), 0);
}
