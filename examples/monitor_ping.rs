//! Pings for a monitor such as Healthchecks: `/start` when a run starts, then success or `/fail`. Three servers race for each
//! tick, and only the winner pings. A small web server stands in for the monitor.
//!
//!     cargo run --example monitor_ping
//!
//! A monitor that expects a ping at every tick also notices what no hook can report: that no server is left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::http::Uri;
use axum::routing::any;
use jobs::events::EndedRun;
use jobs::{Run, State, Timestamp, singleton_job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const SERVERS: usize = 3;
const TICKS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// The check's address at the monitor, which names the job.
const CHECK: &str = "/ping/6f0a4f1e-3c5d-4d52-9d0b-4b9a5d9c1f77";

/// Pulls new products from the supplier. Every second run fails.
#[singleton_job(
    key = "import-products",
    ttl = "10s",
    every = "1s",
    on_success = report_success,
    on_failure = report_failure
)]
async fn import_products(run: Run, State(monitor): State<Monitor>) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    // A monitor that is unreachable is no reason not to import.
    if let Err(error) = monitor.ping("/start", tick, run.server()).await {
        eprintln!("no ping: {error}");
    }
    sleep(Duration::from_millis(100)).await;
    ensure!(tick.as_micros() / 1_000_000 % 2 == 0, "the supplier is closed");
    Ok(())
}

/// Called by the server that ran the job, when the run is on record. An error is logged, and nothing else happens.
async fn report_success(run: EndedRun, State(monitor): State<Monitor>) -> anyhow::Result<()> {
    let tick = run.record.tick.context("started by its schedule")?;
    monitor.ping("", tick, &run.record.server).await
}

/// Called after the last retry.
async fn report_failure(run: EndedRun, State(monitor): State<Monitor>) -> anyhow::Result<()> {
    let tick = run.record.tick.context("started by its schedule")?;
    let why = run.record.error.unwrap_or_else(|| run.record.outcome.to_string());
    monitor.ping("/fail", tick, &format!("{}: {why}", run.record.server)).await
}

/// The client of the monitor. A service uses its HTTP client here.
#[derive(Clone)]
struct Monitor {
    address: SocketAddr,
}

impl Monitor {
    async fn ping(&self, what: &str, tick: Timestamp, text: &str) -> anyhow::Result<()> {
        let Self { address } = self;
        let (body, length) = (format!("{tick} {text}"), format!("{tick} {text}").len());
        let request = format!(
            "POST {CHECK}{what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the monitor answered {answer}");
        Ok(())
    }
}

/// The pings that the monitor has received for each tick: the end of the path, and the text.
type Pings = Arc<Mutex<BTreeMap<String, Vec<(String, String)>>>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pings = Pings::default();
    let monitor = Monitor { address: start_monitor(pings.clone()).await? };

    let namespace = format!("monitor-ping-{}", Timestamp::now().as_micros()); // undisturbed by an earlier run
    let mut servers = Vec::new();
    for number in 1..=SERVERS {
        let builder = jobs::builder().or_embedded().namespace(&namespace).server_id(format!("web-{number}"));
        servers.push(builder.state(monitor.clone()).start_all().await?);
    }
    println!("{SERVERS} servers, one job, due every second\n");

    let enough = async {
        while pings.lock().unwrap().values().filter(|pings| pings.len() > 1).count() < TICKS {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, enough)
        .await
        .with_context(|| format!("fewer than {TICKS} ticks within {PATIENCE:?}"))?;
    for server in servers {
        server.shutdown().await; // waits for runs and hooks in progress
    }

    let pings = pings.lock().unwrap();
    for (tick, pings) in &*pings {
        let paths: Vec<_> = pings.iter().map(|(path, _)| path.as_str()).collect();
        ensure!(matches!(paths[..], ["start", "success" | "fail"]), "{tick} was reported as {pings:?}");
    }
    println!("\n{} ticks: each was started once and ended once, by one of {SERVERS} servers", pings.len());
    Ok(())
}

/// Stands in for the monitor: it prints and keeps what it is sent.
async fn start_monitor(pings: Pings) -> anyhow::Result<SocketAddr> {
    let ping = move |uri: Uri, body: String| async move {
        let path = uri.path().strip_prefix(CHECK).unwrap_or("unknown check").trim_start_matches('/');
        let path = if path.is_empty() { "success" } else { path };
        let (tick, text) = body.split_once(' ').unwrap_or_default();
        println!("  {tick}  {path:<8} {text}");
        pings.lock().unwrap().entry(tick.to_owned()).or_default().push((path.to_owned(), text.to_owned()));
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, Router::new().fallback(any(ping))).into_future());
    Ok(address)
}
