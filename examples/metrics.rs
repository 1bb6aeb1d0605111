//! A fleet of three servers with metrics: each serves a page that Prometheus can scrape.
//!
//!     cargo run --example metrics              starts three servers, scrapes their pages, prints one and ends
//!     cargo run --example metrics -- serve     one server: prints the address of its page, and ends when its input does
//!
//! Alert rules and a Grafana dashboard for these metrics are in `runtime/monitoring`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::routing::get;
use jobs::{Timestamp, singleton_job};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const SERVERS: usize = 3;

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "500ms")]
async fn import_products() {
    sleep(Duration::from_millis(20)).await;
}

/// Always fails.
#[singleton_job(key = "send-reports", ttl = "10s", every = "1s")]
async fn send_reports() -> anyhow::Result<()> {
    anyhow::bail!("the mail server refuses the connection")
}

/// Deletes what is old.
#[singleton_job(key = "clean-up", ttl = "10s", every = "1s")]
async fn clean_up() {}

/// Installs the recorder. It must be installed before the jobs start: their metrics go to the recorder that is there then.
fn install_recorder() -> anyhow::Result<PrometheusHandle> {
    // Without buckets, histograms become summaries, whose quantiles cannot be aggregated over servers.
    let buckets = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 1800.0];
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Prefix("jobs_".to_owned()), &buckets)?;
    Ok(builder.install_recorder()?)
}

/// One server. It prints the address of its page.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let page = install_recorder()?;
    let jobs = jobs::builder().or_embedded().start_all().await?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("@page {}", listener.local_addr()?);
    let router = Router::new().route("/metrics", get(async move || page.render()));
    let ended = tokio::task::spawn_blocking(wait_for_the_end);
    let served = axum::serve(listener, router).with_graceful_shutdown(async { drop(ended.await) });
    served.await?;
    jobs.shutdown().await;
    Ok(())
}

/// The pipe closes at the end, and also when the parent is killed, so no process outlives it.
fn wait_for_the_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A server in a process of its own, which ends when this is dropped.
pub(crate) struct ServerProcess {
    process: Child,
    /// Kept open: a process that prints to a closed pipe fails.
    _output: BufReader<ChildStdout>,
    /// Where its page is: `127.0.0.1:46789`.
    pub(crate) address: String,
}

impl ServerProcess {
    /// Starts this program, which must call [`serve`], and waits for its address.
    pub(crate) fn start(program: &mut Command) -> anyhow::Result<Self> {
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(process.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        while !line.contains("@page ") {
            line.clear();
            ensure!(output.read_line(&mut line)? > 0, "the server ended before it had an address");
        }
        let address = line.split_once("@page ").unwrap_or_default().1.trim().to_owned();
        Ok(Self { process, _output: output, address })
    }

    /// Scrapes its page, as Prometheus does.
    pub(crate) fn page(&self) -> anyhow::Result<String> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let (head, page) = answer.split_once("\r\n\r\n").context("an answer of HTTP")?;
        ensure!(head.contains(" 200 "), "{head}");
        Ok(page.to_owned())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Sums the values of a series over the pages of all servers.
fn sum(servers: &[ServerProcess], series: &str) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for server in servers {
        let page = server.page()?;
        let value = page.lines().find_map(|line| line.strip_prefix(series));
        sum += value.map_or(Ok(0.0), |value| value.trim().parse())?;
    }
    Ok(sum)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve().await;
    }
    // A namespace of its own, so that this example can run several times at once.
    let namespace = format!("metrics-{}", Timestamp::now().as_micros());
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        let mut program = Command::new(std::env::current_exe()?);
        servers.push(ServerProcess::start(program.arg("serve").env("JOBS_NAMESPACE", &namespace))?);
    }
    // The dashboard and the alerts add up what the servers report, just like this.
    let succeeded = "jobs_ticks_total{job_name=\"import-products\",result=\"succeeded\"}";
    let failed = "jobs_ticks_total{job_name=\"send-reports\",result=\"failed\"}";
    let begun = Instant::now();
    while sum(&servers, succeeded)? < 4.0 || sum(&servers, failed)? < 2.0 {
        ensure!(begun.elapsed() < Duration::from_secs(30), "too few runs within 30 s");
        sleep(Duration::from_millis(200)).await;
    }
    for line in
        servers[0].page()?.lines().filter(|line| line.starts_with("jobs_") && !line.contains("_bucket"))
    {
        println!("{line}");
    }
    println!(
        "\nby all {SERVERS} servers:\n{succeeded} {}\n{failed} {}",
        sum(&servers, succeeded)?,
        sum(&servers, failed)?
    );
    Ok(())
}
