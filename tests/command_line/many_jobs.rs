//! A thousand jobs: one answer, quickly, and in a number of requests that does not depend on the number of jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobs::Job;
use jobs::store::memory::MemoryStore;
use jobs::testing::{Hook, HookFuture, Intercept, Request};
use support::redis_server::RedisServer;

use super::kit::{NAMESPACE, builder, run};

fn jobs(count: usize, every: &str) -> impl Iterator<Item = Job> {
    let job = move |number| {
        Job::builder(format!("job-{number:04}")).every(every).run(|_| async {}).build().expect("a job")
    };
    (0..count).map(job)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_1000_jobs_answers_quickly() {
    let redis = RedisServer::start();
    let server = builder(&redis.url()).jobs(jobs(1000, "1s")).start_all().await.expect("it starts");
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The fleet is at rest while it is measured: what it does is no part of the answer.
    server.shutdown().await;
    let resting = builder(&redis.url()).jobs(jobs(1000, "1d")).start_all().await.expect("it starts");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let list = ["list", "--url", &redis.url(), "--namespace", NAMESPACE];
    let mut times = Vec::new();
    for _ in 0..5 {
        let asked = Instant::now();
        let listed = run(&list).await;
        times.push(asked.elapsed());
        assert_eq!(listed.out.lines().count(), 1001, "{}", listed.errors);
    }
    times.sort();
    println!("1,000 jobs are listed in {:?} (debug build: {})", times[0], cfg!(debug_assertions));
    resting.shutdown().await;
    // The build of the tests is not optimised; an optimised one takes a fraction.
    assert!(times[0] < Duration::from_millis(900), "{times:?}");
}

/// Counts requests.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Hook for Counted {
    fn before<'a>(&'a self, _request: Request<'a>) -> HookFuture<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(())))
    }
}

async fn requests_of_an_overview(count: usize) -> usize {
    let counted = Counted::default();
    let name = format!("overview-of-{count}");
    let store = || MemoryStore::named(&name);
    let server =
        jobs::builder().without_annotated().jobs(jobs(count, "1s")).store(store()).start_all().await.unwrap();
    let watched = Intercept::new(Arc::new(store()), counted.clone());
    let tool = jobs::builder().without_jobs().store(watched).start_all().await.unwrap();
    while tool.overview().await.unwrap().jobs.iter().filter(|job| job.stats.runs > 0).count() < count {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = counted.0.load(Ordering::SeqCst);
    tool.overview().await.unwrap();
    let requests = counted.0.load(Ordering::SeqCst) - before;
    tool.shutdown().await;
    server.shutdown().await;
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overview_makes_as_many_requests_for_1000_jobs_as_for_10() {
    assert_eq!(requests_of_an_overview(10).await, requests_of_an_overview(1000).await);
}
