//! Webhooks that are delivered several times, to any server, are processed once.
//!
//!     cargo run --example webhook_once
//!     JOBS_URL=redis://localhost:6379 cargo run --example webhook_once
//!
//! Two web servers, each a process of this program, book payments. A sender delivers each of 20 webhooks three times, to
//! either server and at the same time. The program fails if a payment is booked twice or not at all.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::Router;
use axum::extract::{self, State};
use axum::http::StatusCode;
use axum::routing::post;
use jobs::Timestamp;
use jobs::locks::{OnceError, OnceOutcome};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const WEBHOOKS: usize = 20;
const DELIVERIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// The accounts are unreachable at the first attempt to book this payment.
const UNLUCKY: &str = "payment-13";

/// Handles a webhook: the first delivery processes it, the others find it done or in progress.
async fn receive(State(accounts): State<Accounts>, extract::Path(payment): extract::Path<String>) -> Answer {
    let once = jobs::once(format!("webhook:{payment}")).within("24h").ttl("10s");
    match once.run(|_| accounts.book(&payment)).await {
        Ok(OnceOutcome::Ran(())) => (StatusCode::OK, "processed".to_owned()),
        Ok(OnceOutcome::AlreadyDone(_)) => (StatusCode::OK, "already done".to_owned()),
        // If that attempt fails, its own delivery is answered with an error, and repeated.
        Ok(_) => (StatusCode::ACCEPTED, "in progress".to_owned()),
        Err(OnceError::Failed(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

type Answer = (StatusCode, String);

/// Stands for the shop's accounts: a file with one line per booking.
#[derive(Clone)]
struct Accounts {
    folder: PathBuf,
}

impl Accounts {
    async fn book(&self, payment: &str) -> anyhow::Result<()> {
        sleep(Duration::from_millis(150)).await; // a slow system
        ensure!(payment != UNLUCKY || !self.outage().exists(), "no connection to the accounts");
        let mut book = OpenOptions::new().append(true).create(true).open(self.folder.join("book"))?;
        Ok(book.write_all(format!("{payment}\n").as_bytes())?)
    }

    /// The number of bookings of each payment.
    fn booked(&self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut booked = BTreeMap::new();
        for payment in std::fs::read_to_string(self.folder.join("book"))?.lines() {
            *booked.entry(payment.to_owned()).or_default() += 1;
        }
        Ok(booked)
    }

    fn outage(&self) -> PathBuf {
        self.folder.join("outage")
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Some(folder) = std::env::args().nth(1) {
        return serve(Accounts { folder: folder.into() }).await;
    }
    let folder = std::env::temp_dir().join(format!("webhook-once-{}", Timestamp::now().as_micros()));
    std::fs::create_dir_all(&folder)?;
    let shown = tokio::select! {
        shown = timeout(PATIENCE, deliver_all(&folder)) => shown.context("the webhooks took too long")?,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    std::fs::remove_dir_all(&folder)?;
    shown
}

/// One of the two servers.
async fn serve(accounts: Accounts) -> anyhow::Result<()> {
    let jobs = jobs::builder().or_embedded().without_jobs().start_all().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());

    let app = Router::new().route("/webhooks/{payment}", post(receive)).with_state(accounts);
    // The pipe closes when the sender ends, and also when it is killed: no server keeps running.
    let end = async { drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await) };
    axum::serve(listener, app).with_graceful_shutdown(end).await?;
    jobs.shutdown().await;
    Ok(())
}

async fn deliver_all(folder: &Path) -> anyhow::Result<()> {
    let accounts = Accounts { folder: folder.to_owned() };
    std::fs::write(accounts.outage(), "")?;
    let mut servers = [Server::start("A", folder).await?, Server::start("B", folder).await?];
    let ports = servers.each_ref().map(|server| (server.name, server.port));
    println!("{WEBHOOKS} webhooks, each delivered {DELIVERIES} times, to the servers A and B.\n");

    let mut deliveries = JoinSet::new();
    for webhook in 1..=WEBHOOKS {
        for turn in 0..DELIVERIES {
            let delivery = Delivery { webhook, turn, ports, outage: accounts.outage() };
            deliveries.spawn(delivery.until_accepted());
        }
    }
    let mut answers = BTreeMap::new();
    while let Some(answered) = deliveries.join_next().await {
        let (place, answer) = answered??;
        answers.insert(place, answer);
    }
    for server in &mut servers {
        server.stop().await?;
    }
    check(&answers, &accounts.booked()?)
}

struct Server {
    name: &'static str,
    port: u16,
    process: Child,
}

impl Server {
    /// Killed when it is dropped.
    async fn start(name: &'static str, folder: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(folder)
            // A namespace of its own: an earlier run of this example has processed the same webhooks.
            .env("JOBS_NAMESPACE", folder.file_name().context("the folder has a name")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().context("its output is piped")?;
        let port = BufReader::new(output).lines().next_line().await?;
        let port = port.with_context(|| format!("server {name} did not start"))?.parse()?;
        Ok(Self { name, port, process })
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        drop(self.process.stdin.take());
        ensure!(self.process.wait().await?.success(), "server {} failed", self.name);
        Ok(())
    }
}

/// One of the three deliveries of a webhook.
struct Delivery {
    webhook: usize,
    turn: usize,
    ports: [(&'static str, u16); 2],
    outage: PathBuf,
}

impl Delivery {
    /// Repeats a delivery that did not succeed, to the other server, as senders of webhooks do.
    async fn until_accepted(self) -> anyhow::Result<((usize, usize), Vec<String>)> {
        // The first two at the same time, the third when the work may be done.
        sleep(Duration::from_millis(if self.turn == 2 { 200 } else { 0 })).await;
        let mut answers = Vec::new();
        for attempt in 0..10 {
            let (server, port) = self.ports[(self.webhook + self.turn + attempt) % 2];
            let (status, answer) = send(port, &payment(self.webhook)).await?;
            if status.is_success() {
                answers.push(format!("{server} {answer}"));
                return Ok(((self.webhook, self.turn), answers));
            }
            answers.push(format!("{server} {}", status.as_u16()));
            sleep(Duration::from_millis(300)).await;
            drop(std::fs::remove_file(&self.outage)); // the accounts are reachable again
        }
        bail!("{} was never accepted: {}", payment(self.webhook), answers.join(", "))
    }
}

fn payment(webhook: usize) -> String {
    format!("payment-{webhook}")
}

/// Sends an HTTP request.
async fn send(port: u16, payment: &str) -> anyhow::Result<Answer> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!(
        "POST /webhooks/{payment} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let status = response.split_whitespace().nth(1).context("a response without a status")?;
    let (_, body) = response.split_once("\r\n\r\n").context("a response without a body")?;
    Ok((status.parse()?, body.to_owned()))
}

fn check(
    answers: &BTreeMap<(usize, usize), Vec<String>>,
    booked: &BTreeMap<String, usize>,
) -> anyhow::Result<()> {
    println!("  {:<12}{:<24}{:<24}{:<24}booked", "webhook", "1st delivery", "2nd delivery", "3rd delivery");
    for webhook in 1..=WEBHOOKS {
        let name = payment(webhook);
        print!("  {name:<12}");
        for turn in 0..DELIVERIES {
            print!("{:<24}", answers[&(webhook, turn)].join(", "));
        }
        println!("{}", "●".repeat(booked.get(&name).copied().unwrap_or(0)));
    }

    let count = |word: &str| answers.values().flatten().filter(|answer| answer.ends_with(word)).count();
    let (processed, done, busy) = (count("processed"), count("already done"), count("in progress"));
    let failed = answers.values().flatten().count() - processed - done - busy;
    let effects: usize = booked.values().sum();
    println!(
        "\n{processed} processed, {done} already done, {busy} in progress, {failed} failed and repeated"
    );

    for webhook in 1..=WEBHOOKS {
        let times = booked.get(&payment(webhook)).copied().unwrap_or(0);
        ensure!(times == 1, "{} was booked {times} times", payment(webhook));
    }
    ensure!(failed > 0, "no delivery failed while the accounts were unreachable");
    ensure!(processed == WEBHOOKS, "{processed} deliveries were answered with \"processed\", not {WEBHOOKS}");
    println!("{} deliveries, {effects} bookings: every payment was booked once.", answers.len());
    Ok(())
}
