//! Whole servers on PostgreSQL, from a URL to a record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::{Job, Jobs, Timestamp};

use super::unused_name;
use support::postgres_server::PostgresServer;

type Starts = Arc<Mutex<Vec<(Option<Timestamp>, i64)>>>;

async fn start(url: &str, namespace: &str, starts: &Starts) -> Jobs {
    let starts = Arc::clone(starts);
    let job = Job::builder("import-products").every("1s");
    let job = job
        .ttl(Duration::from_secs(5))
        .run(move |run| {
            starts.lock().unwrap().push((run.tick(), run.fence()));
            async {}
        })
        .build()
        .unwrap();
    let builder = jobs::builder().without_annotated().url(url).namespace(namespace).job(job);
    builder.start_all().await.expect("the store answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_start_each_tick_once_also_over_a_restart_of_the_database() {
    let (mut server, namespace, starts) = (PostgresServer::start(), unused_name(), Starts::default());
    let mut fleet = Vec::new();
    for _ in 0..3 {
        fleet.push(start(&server.url(), &namespace, &starts).await);
    }
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let before = starts.lock().unwrap().len();
    let server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let _server = server.await.expect("a restart");
    tokio::time::sleep(Duration::from_millis(3_500)).await;

    let history = fleet[0].history("import-products").await.expect("history");
    assert_eq!(fleet[0].servers().await.expect("servers").len(), 3);
    for jobs in fleet {
        jobs.shutdown().await;
    }
    let starts = std::mem::take(&mut *starts.lock().unwrap());
    let after = starts.len() - before;
    assert!(before >= 2 && after >= 2, "{before} ticks before the restart, {after} since");
    let fences: BTreeMap<_, _> = starts.iter().copied().collect();
    assert_eq!(fences.len(), starts.len(), "a tick was started twice: {starts:?}");
    assert!(fences.values().is_sorted_by(|a, b| a < b), "{fences:?}");
    assert!(history.runs.iter().all(|run| run.outcome == RunOutcome::Succeeded), "{history:?}");
}
