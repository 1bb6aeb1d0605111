//! A scheduler that cannot go on says so: in its health, to whoever waits for its end, and in its exit.

use std::time::Duration;

use jobs::store::memory::MemoryStore;
use jobs::store::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ReleaseReply,
    RequestHint, Requested, RunRequest, ServerInfo, Store, StoreFuture, Verdict,
};
use jobs::{Builder, Closed, Health, Job, StartError};

/// A store of somebody's own, with a defect.
struct Defective(MemoryStore);

impl Store for Defective {
    fn location(&self) -> String {
        self.0.location()
    }
    fn ping(&self) -> StoreFuture<'_, ()> {
        self.0.ping()
    }
    fn claim<'a>(&'a self, _: &'a str, _: &'a Claim) -> StoreFuture<'a, Verdict> {
        panic!("a defect in the store")
    }
    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        self.0.extend(key, lease)
    }
    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        self.0.release(key, lease, end)
    }
    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.0.set_paused(key, paused)
    }
    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.0.reset(key)
    }
    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.0.forget(key, quiet)
    }
    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        self.0.request(key, request)
    }
    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.0.history(key)
    }
    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.0.break_lock(key, remember)
    }
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.0.locks()
    }
    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.0.announce(announcement)
    }
    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.0.leave(server)
    }
    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.0.servers()
    }
}

fn every_tenth_of_a_second() -> Job {
    Job::new("job").every("100ms").unwrap().ttl(Duration::from_secs(1)).run(|_| async {})
}

fn on_a_defective_store() -> Builder {
    let store = Defective(MemoryStore::named("defective"));
    jobs::builder().without_annotated().store(store).job(every_tenth_of_a_second())
}

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_panic_inside_the_scheduler_ends_it_and_is_told() {
    let jobs = on_a_defective_store().start_all().await.unwrap();
    let closed = tokio::time::timeout(SOON, jobs.closed()).await.expect("it ends");
    assert_eq!(closed, Closed::Failed);
    assert_eq!(jobs.health(), Health::Stopped);
    jobs.shutdown().await;
}

#[tokio::test]
async fn a_worker_whose_scheduler_cannot_go_on_ends_with_an_error() {
    let ended = tokio::time::timeout(SOON, on_a_defective_store().run_until_signal()).await.expect("it ends");
    assert!(matches!(ended, Err(StartError::Ended)), "{ended:?}");
}

#[test]
fn a_scheduler_outlives_the_runtime_of_its_jobs_only_to_say_so() {
    let application = tokio::runtime::Runtime::new().unwrap();
    let builder = jobs::builder().without_annotated().url("memory://outlived").job(every_tenth_of_a_second());
    let jobs = application.block_on(builder.start_all()).unwrap();
    assert_eq!(jobs.health(), Health::Ready);
    drop(application);

    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let closed = other.block_on(async { tokio::time::timeout(SOON, jobs.closed()).await });
    assert_eq!(closed.expect("it ends"), Closed::Failed);
}
