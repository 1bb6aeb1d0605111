//! Measures how long the winner of a tick takes: ten workers compete for one lock in a hundred rounds.
//!
//! It repeats the experiment of a paper that keeps one copy of a job running by a lock in a database table.
//!
//!     cargo run --example claim_latency
//!     cargo run --example claim_latency redis://localhost:6379 postgres://postgres@localhost/postgres
//!
//! The workers are processes of this program, connected before the first round. In each round they get an instant, sleep until
//! then, and claim the same tick. The measured time begins at that instant and ends when the winner has the store's answer. It
//! includes the wake-up of the winner, its request, the decision among ten, and the answer. The winner then releases the
//! lock, and the next round begins when all ten have reported. It fails if a round does not have exactly one winner. On
//! PostgreSQL workers also send one bare statement instead, in which the database decides, and two, a read and a write: the least
//! that a claim can cost there. The paper's figures come from another machine and another database, and show only the order of
//! magnitude.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::schedule::{Missed, Overlap};
use jobs::store::file::FileStore;
use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::sqlite::SqliteStore;
use jobs::store::{Claim, ClaimDecision, ClaimPurpose, Ending, REMEMBERED, RunDetails, Store, TickClaim};
use jobs::testing::store::Client;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

#[path = "claim_latency/bare.rs"]
mod bare;
#[path = "claim_latency/figures.rs"]
mod figures;
#[path = "claim_latency/plot.rs"]
mod plot;

use bare::{Bare, PREFIXES, without_prefix};
use figures::Figures;

const WORKERS: usize = 10;
const ROUNDS: usize = 100;
const KEY: &str = "one-copy";

/// Long enough for ten workers to receive the instant.
const LEAD: Duration = Duration::from_millis(25);
const MINUTE: Duration = Duration::from_secs(60);

/// The environment variables of the ten processes.
const STORE: &str = "CLAIM_LATENCY_STORE";
const NAMESPACE: &str = "CLAIM_LATENCY_NAMESPACE";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    if let (Ok(url), Ok(namespace)) = (std::env::var(STORE), std::env::var(NAMESPACE)) {
        return work(&url, &namespace).await;
    }
    let folder = std::env::temp_dir().join(format!("claim-latency-{}", std::process::id()));
    let given: Vec<_> = std::env::args().skip(1).collect();
    let urls = if given.is_empty() { vec![format!("file://{}", folder.display())] } else { given };
    let measured = tokio::select! {
        measured = measure_all(&urls) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let all = measured?;
    println!("\n{}", figures::table(&all));
    let path = std::env::temp_dir().join("claim_latency.svg");
    std::fs::write(&path, plot::draw(&all)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("every round had one winner; the distribution is in {}", path.display());
    Ok(())
}

async fn measure_all(urls: &[String]) -> anyhow::Result<Vec<Figures>> {
    let mut all = vec![Figures::of_the_paper()];
    for url in urls {
        all.push(measure(url).await?);
        if url.starts_with("postgres") {
            for prefix in PREFIXES {
                all.push(measure(&format!("{prefix}{url}")).await?);
            }
        }
    }
    Ok(all)
}

fn open(url: &str, namespace: &str) -> anyhow::Result<Client> {
    let namespace = Some(namespace);
    let store: Arc<dyn Store> = match url.split_once("://") {
        Some(("redis", _)) => Arc::new(RedisStore::open(url, namespace)?.with_timeouts(MINUTE, MINUTE)),
        Some(("postgres" | "postgresql", _)) => {
            Arc::new(PostgresStore::open(url, namespace)?.with_timeouts(MINUTE, MINUTE))
        }
        Some(("file", folder)) => Arc::new(FileStore::open(folder, namespace)?.with_lock_timeout(MINUTE)),
        Some(("mysql" | "mariadb", _)) => {
            Arc::new(MysqlStore::open(url, namespace)?.with_timeouts(MINUTE, MINUTE))
        }
        Some(("sqlite", path)) => Arc::new(SqliteStore::open(path, namespace)?.with_lock_timeout(MINUTE)),
        _ => bail!(
            "expected redis://host:6379, postgres://host/database, mysql://host/database, sqlite:///path or file:///folder"
        ),
    };
    Ok(Client::of(store))
}

/// One of the ten workers: claims a tick at each instant that it reads.
async fn work(url: &str, namespace: &str) -> anyhow::Result<()> {
    let bare = Bare::open(url).await?;
    let store = open(without_prefix(url), namespace)?;
    store.ping().await?;
    println!("ready");
    for line in std::io::stdin().lines() {
        let start = Timestamp::from_micros(line?.parse()?);
        let claim = claim_of(start);
        // Blocks the thread, and wakes up more exactly than a timer of the runtime; nothing else runs here.
        std::thread::sleep(start.since(Timestamp::now()));
        if let Some(bare) = &bare {
            let won = bare.claim(start.as_micros()).await?;
            let took = Timestamp::now().since(start).as_micros();
            println!("{}", if won { format!("won {took}") } else { "lost".to_owned() });
            continue;
        }
        let answer = store.claim(KEY, &claim).await?;
        let took = Timestamp::now().since(start);
        match answer.reply.decision {
            ClaimDecision::Won(won) => {
                let end = Ending::of(RunOutcome::Succeeded, REMEMBERED);
                store.release(KEY, &won.lease, &end).await?;
                println!("won {}", took.as_micros());
            }
            ClaimDecision::Taken(_) => println!("lost"),
            other => bail!("neither won nor lost: {other:?}"),
        }
    }
    Ok(())
}

fn claim_of(start: Timestamp) -> Claim {
    let tick = TickClaim {
        // The round's own tick. It is long due, so that a store whose clock differs from ours waits for nothing.
        tick: start - MINUTE,
        previous: None,
        delay: Duration::ZERO,
        grace: 10 * MINUTE,
        only_takes_over: false,
        overlap: Overlap::Skip,
        takeovers: 0,
        missed: Missed::Skip,
        schedule: "1s".into(),
        known_for: 20 * MINUTE,
    };
    let process = std::process::id();
    Claim {
        token: format!("{process}-{}", start.as_micros()).into(),
        server: format!("worker-{process}").into(),
        ttl: MINUTE,
        what: ClaimPurpose::Tick(tick),
        remember: REMEMBERED,
        details: RunDetails::default(),
    }
}

async fn measure(url: &str) -> anyhow::Result<Figures> {
    let namespace = format!("claim-latency-{}", Timestamp::now().as_micros());
    let store = open(without_prefix(url), &namespace)?;
    let bare = Bare::open(url).await?;
    let by = if bare.is_some() { ", by bare statements" } else { "" };
    println!("{ROUNDS} rounds of {WORKERS} workers on {}{by}", store.store().location());
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(Worker::start(url, &namespace)?);
    }
    for worker in &mut workers {
        ensure!(worker.receive().await? == "ready", "a worker did not start");
    }
    let mut figures = Figures { name: scheme(url), times: Vec::new(), wins: vec![0; WORKERS] };
    for round in 1..=ROUNDS {
        let start = Timestamp::now() + LEAD;
        for worker in &mut workers {
            worker.input.write_all(format!("{}\n", start.as_micros()).as_bytes()).await?;
        }
        let mut winners = Vec::new();
        for (number, worker) in workers.iter_mut().enumerate() {
            if let Some(took) = worker.receive().await?.strip_prefix("won ") {
                winners.push((number, Duration::from_micros(took.parse()?)));
            }
        }
        let [(winner, took)] = winners[..] else { bail!("round {round} had {} winners", winners.len()) };
        figures.wins[winner] += 1;
        figures.times.push(took);
    }
    for worker in workers {
        let Worker { mut process, input, .. } = worker;
        drop(input);
        ensure!(process.wait().await?.success(), "a worker failed");
    }
    store.forget(KEY, Duration::ZERO).await?;
    if let Some(bare) = bare {
        bare.remove().await?;
    }
    Ok(figures)
}

fn scheme(url: &str) -> String {
    url.split("://").next().unwrap_or_default().to_owned()
}

/// Killed when it is dropped; ends by itself when its input ends.
struct Worker {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(url: &str, namespace: &str) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .env(STORE, url)
            .env(NAMESPACE, namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().context("its input is piped")?;
        let output = BufReader::new(process.stdout.take().context("its output is piped")?).lines();
        Ok(Self { process, input, output })
    }

    async fn receive(&mut self) -> anyhow::Result<String> {
        let line = tokio::time::timeout(MINUTE, self.output.next_line()).await;
        line.context("a worker does not answer")??.context("a worker exited too early")
    }
}
