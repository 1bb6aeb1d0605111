//! A scheduler that cannot go on says so: in its health, to whoever waits for its end, and in its exit.

use std::sync::Arc;
use std::time::Duration;

use jobs::store::memory::MemoryStore;
use jobs::testing::{Hook, HookFuture, Intercept, Request};
use jobs::{Builder, Closed, Health, Job, StartError};

/// A defect in a store of somebody's own: it panics when the job is claimed.
struct Defect;

impl Hook for Defect {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        assert!(!matches!(request, Request::Look("job")), "a defect in the store");
        Box::pin(std::future::ready(Ok(())))
    }
}

fn every_tenth_of_a_second() -> Job {
    Job::builder("job").every("100ms").ttl(Duration::from_secs(1)).run(|_| async {}).build().unwrap()
}

fn on_a_defective_store() -> Builder {
    let store = Intercept::new(Arc::new(MemoryStore::named("defective")), Defect);
    jobs::builder().without_annotated().store(store).job(every_tenth_of_a_second())
}

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn panic_inside_the_scheduler_ends_it_and_is_reported() {
    let jobs = on_a_defective_store().start_all().await.unwrap();
    let closed = tokio::time::timeout(SOON, jobs.closed()).await.expect("it ends");
    assert_eq!(closed, Closed::Failed);
    assert_eq!(jobs.health(), Health::Stopped);
    jobs.shutdown().await;
}

#[tokio::test]
async fn worker_whose_scheduler_fails_ends_with_an_error() {
    let ended = tokio::time::timeout(SOON, on_a_defective_store().run_until_signal()).await.expect("it ends");
    assert!(matches!(ended, Err(StartError::Ended)), "{ended:?}");
}

#[test]
fn scheduler_whose_runtime_ended_reports_its_failure() {
    let application = tokio::runtime::Runtime::new().unwrap();
    let builder = jobs::builder().without_annotated().url("memory://outlived").job(every_tenth_of_a_second());
    let jobs = application.block_on(builder.start_all()).unwrap();
    assert_eq!(jobs.health(), Health::Ready);
    drop(application);

    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let closed = other.block_on(async { tokio::time::timeout(SOON, jobs.closed()).await });
    assert_eq!(closed.expect("it ends"), Closed::Failed);
}

#[test]
fn a_manual_run_does_not_keep_a_scheduler_whose_application_has_ended() {
    let application = tokio::runtime::Runtime::new().unwrap();
    let manual = Job::builder("job").run(|_| async {}).build().unwrap();
    let builder = jobs::builder().without_annotated().url("memory://manual").job(manual);
    let jobs = application.block_on(builder.start_all()).unwrap();
    drop(application);

    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (asked, closed) = other.block_on(async {
        let asked = tokio::time::timeout(SOON, jobs.run_now("job")).await;
        (asked.expect("it is refused"), tokio::time::timeout(SOON, jobs.closed()).await)
    });
    assert!(asked.is_err(), "{asked:?}");
    assert_eq!(closed.expect("it ends"), Closed::Failed);
}
