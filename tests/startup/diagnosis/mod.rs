//! What could hurt is said at start, in the log and as data; what cannot work ends the start.
#![cfg(unix)]

mod door;
mod folders;
mod postgres;
mod redis;
mod starts;
mod too_old;

use jobs::diagnosis::{Finding, FindingKind, Severity};
use jobs::store::Store;
use jobs::{Builder, Job};

/// What the store says of itself and of these jobs.
async fn found_by(store: &impl Store, jobs: &[&str]) -> Vec<Finding> {
    store.look("any").await.expect("the store answers");
    let jobs: Vec<_> = jobs.iter().map(ToString::to_string).collect();
    store.diagnose(&jobs).await.expect("a diagnosis")
}

/// The one finding, whose message must say all of this.
fn only(findings: &[Finding], kind: FindingKind, severity: Severity, says: &[&str]) {
    let [finding] = findings else { panic!("one finding was expected: {findings:#?}") };
    assert_eq!((finding.kind, finding.severity), (kind, severity), "{finding}");
    for part in says {
        assert!(finding.message.contains(part), "\"{part}\" is not in \"{finding}\"");
    }
}

/// A server with one job whose ttl is so long.
fn builder(url: &str, ttl_secs: u64) -> Builder {
    let job = Job::builder("import").every("1h");
    let job = job.ttl(std::time::Duration::from_secs(ttl_secs)).run(async |_| ()).build().unwrap();
    jobs::builder().without_annotated().url(url).job(job)
}
