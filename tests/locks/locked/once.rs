//! Functions that are locked with `within`.

use std::sync::atomic::{AtomicU32, Ordering};

use jobs::locked;
use jobs::locks::NotRun;

use super::kit::{Gate, server};

#[locked(key = "webhook:{id}", within = "1h")]
async fn handle(id: &str, calls: &AtomicU32, answer: Result<u32, String>) -> Result<u32, String> {
    calls.fetch_add(1, Ordering::SeqCst);
    let answer = answer?;
    Ok(answer)
}

#[tokio::test]
async fn call_that_succeeded_is_not_run_again_within_the_period() {
    let jobs = server("done").await;
    let calls = AtomicU32::new(0);
    jobs.scope(async {
        assert_eq!(handle("a", &calls, Ok(1)).await.ok(), Some(Ok(1)));
        let again = handle("a", &calls, Ok(2)).await;
        let error = again.unwrap_err();
        let NotRun::AlreadyDone { key, at } = &error else { panic!("{error:?}") };
        let message = format!("not run: \"{key}\" was done at {at} and is not done again during `within`");
        assert_eq!(error.to_string(), message);
        assert_eq!(handle("b", &calls, Ok(3)).await.ok(), Some(Ok(3)));
    })
    .await;
    assert_eq!(calls.into_inner(), 2);
}

#[tokio::test]
async fn call_that_failed_is_run_again() {
    let jobs = server("error").await;
    let calls = AtomicU32::new(0);
    jobs.scope(async {
        let failed = handle("a", &calls, Err("declined".to_owned())).await;
        assert_eq!(failed.ok(), Some(Err("declined".to_owned())));
        assert_eq!(handle("a", &calls, Ok(2)).await.ok(), Some(Ok(2)));
        assert!(matches!(handle("a", &calls, Ok(3)).await, Err(NotRun::AlreadyDone { .. })));
    })
    .await;
    assert_eq!(calls.into_inner(), 2);
}

#[locked(key = "report", within = "1s")]
async fn report(calls: &AtomicU32) {
    calls.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test]
async fn call_is_run_again_after_the_period() {
    let jobs = server("within").await;
    let calls = AtomicU32::new(0);
    jobs.scope(async {
        assert!(report(&calls).await.is_ok());
        let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        while report(&calls).await.is_err() {
            assert!(tokio::time::Instant::now() < limit, "still done after 30 s");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(calls.into_inner(), 2);
}

#[locked(key = "slow", within = "1h", wait = "forever")]
async fn slow(gate: &Gate) {
    gate.pass().await;
}

#[tokio::test]
async fn waiting_caller_finds_the_work_done() {
    let jobs = server("slow").await;
    let gate = Gate::default();
    let both = async { tokio::join!(slow(&gate), slow(&gate)) };
    let opener = async {
        gate.arrival().await;
        gate.open();
    };
    let ((one, two), ()) = Box::pin(jobs.scope(async { tokio::join!(both, opener) })).await;
    assert!(one.is_ok(), "{one:?}");
    assert!(matches!(two, Err(NotRun::AlreadyDone { .. })), "{two:?}");
    assert_eq!(gate.entered(), 1);
}
