//! A scheduler that cannot continue reports it: in its health, to callers that wait for its end, and in its exit. None is left
//! behind without a handle.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use jobs::store::memory::MemoryStore;
use jobs::testing::{Hook, HookFuture, Intercept, Request};
use jobs::{Builder, Closed, Health, Job, StartError};

/// A defect in a custom store: it panics when the job is claimed.
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

/// A start on a store of its own, whose job counts its runs.
fn counting(store: &str) -> (Builder, Arc<AtomicU32>) {
    let runs = Arc::<AtomicU32>::default();
    let counted = runs.clone();
    let job = Job::builder("job").every("100ms").ttl("1s").run(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let builder = jobs::builder().without_annotated().url(format!("memory://{store}"));
    (builder.job(job.build().unwrap()), runs)
}

/// The scheduler's thread has answered, and the caller is gone before it has read the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_that_is_dropped_after_its_thread_has_answered_leaves_no_scheduler() {
    let (builder, runs) = counting("dropped-start");
    {
        let start = pin!(builder.start_all());
        assert!(start.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        while runs.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = runs.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(runs.load(Ordering::SeqCst), before, "no handle exists, and it still runs the job");
}

/// The control: with its handle the same scheduler keeps running the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_whose_handle_is_kept_keeps_running_its_job() {
    let (builder, runs) = counting("kept-start");
    let jobs = builder.start_all().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = runs.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(runs.load(Ordering::SeqCst) > before);
    jobs.shutdown().await;
}
