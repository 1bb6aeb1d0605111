//! A thousand jobs, and twenty viewers.

use std::time::{Duration, Instant};

use jobs::dashboard::Dashboard;
use jobs::{Job, Jobs};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::site::{get, serve};

async fn thousand_jobs(url: &str) -> Jobs {
    let job = |number: u32| {
        let job = Job::builder(format!("import/supplier-{number:04}")).every("* * * * *");
        let job = job.description("Pulls the products of a supplier, with prices and images, into the shop.");
        job.run(|_| async { Ok::<_, std::io::Error>(()) }).build().expect("a valid job")
    };
    let builder = jobs::builder().url(url).without_annotated().jobs((0..1000).map(job)).max_concurrent(50);
    builder.start_all().await.expect("a server")
}

/// The requests that the server has answered: those that list or read records of jobs.
async fn reads(redis: &RedisServer) -> u64 {
    let mut client = redis.client().await;
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut client).await.expect("statistics");
    let scans = stats.lines().find(|line| line.starts_with("cmdstat_scan:"));
    scans.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
}

async fn view(address: String) {
    let mut viewer = TcpStream::connect(&address).await.expect("the dashboard");
    let head = format!("GET /events?page=overview HTTP/1.1\r\nHost: {address}\r\n\r\n");
    viewer.write_all(head.as_bytes()).await.expect("a request");
    let mut buffer = vec![0; 100_000];
    while viewer.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_jobs_are_shown_quickly_and_polled_once_per_second_by_twenty_viewers() {
    let redis = RedisServer::start();
    let jobs = thousand_jobs(&redis.url()).await;
    let address = serve(Dashboard::new(jobs.clone()).into_router()).await;
    sleep(Duration::from_secs(1)).await;

    // The requests of one poll.
    let before = reads(&redis).await;
    jobs.overview().await.expect("an overview");
    let per_poll = reads(&redis).await - before;
    assert!(per_poll > 0, "polls are not recognized any more");

    let mut first_bytes = Vec::new();
    for page in ["/overview", "/overview?page=7", "/overview?q=supplier-09", "/timeline", "/servers"] {
        sleep(Duration::from_millis(1100)).await; // nothing is known from the page before
        let begun = Instant::now();
        let mut connection = TcpStream::connect(&address).await.expect("the dashboard");
        let head = format!("GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(head.as_bytes()).await.expect("a request");
        let mut content = vec![0; 1];
        connection.read_exact(&mut content).await.expect("an answer");
        first_bytes.push((page, begun.elapsed()));
        connection.read_to_end(&mut content).await.expect("an answer");
        println!(
            "{page:28} first byte after {:>6.1?}, {} bytes",
            first_bytes.last().unwrap().1,
            content.len()
        );
        assert!(content.starts_with(b"HTTP/1.1 200"), "{page}");
        assert!(content.len() < 500_000, "{page}: {} bytes", content.len());
    }
    assert!(get(&address, "/overview").await.text.contains("1000 jobs"));

    // No viewer is connected.
    let before = reads(&redis).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!((reads(&redis).await - before) / per_poll, 0, "polls without a viewer");

    // Twenty look, and some reload the page.
    let viewers: Vec<_> = (0..20).map(|_| tokio::spawn(view(address.clone()))).collect();
    let (before, begun) = (reads(&redis).await, Instant::now());
    for _ in 0..10 {
        sleep(Duration::from_millis(500)).await;
        get(&address, "/overview").await;
    }
    let (polls, seconds) = ((reads(&redis).await - before) / per_poll, begun.elapsed().as_secs_f64());
    println!("{polls} polls in {seconds:.1} s with 20 viewers");
    assert!(polls >= 2, "the control: {polls} polls");
    assert!(f64::from(u32::try_from(polls).unwrap()) <= seconds + 1.0, "{polls} polls in {seconds:.1} s");
    viewers.iter().for_each(tokio::task::JoinHandle::abort);
    jobs.shutdown().await;
    // At the end, so that the figures above are printed in any case. A debug build on a busy machine takes longer.
    let limit = if cfg!(debug_assertions) { Duration::from_secs(3) } else { Duration::from_millis(200) };
    for (page, first_byte) in first_bytes {
        assert!(first_byte < limit, "{page}: first byte after {first_byte:?}");
    }
}
