//! Ten servers, one job, due every second: each tick runs on one of them.
//!
//!     cargo run --example ten_servers
//!     JOBS_URL=redis://localhost:6379 cargo run --example ten_servers
//!
//! Ten processes of this program compete for 15 ticks. It fails if a tick runs twice or not at all.

use std::collections::BTreeMap;
use std::io::Read;
use std::iter::successors;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::{Run, Timestamp, singleton_job};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SERVERS: usize = 10;
const TICKS: usize = 15;
const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// The environment variable with the number of a process.
const NUMBER: &str = "TEN_SERVERS_NUMBER";

/// Takes almost no time: a plain lock would be free again when the slower servers try it.
#[singleton_job(key = "count-visitors", ttl = "5s", every = "1s")]
async fn count_visitors(run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    println!("@ran {}", tick.as_micros());
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Ok(number) = std::env::var(NUMBER) {
        return serve(&number).await;
    }
    tokio::select! {
        done = compete() => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the ten servers. A server that loses a tick logs one debug line, which the parent reads.
async fn serve(number: &str) -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("jobs=debug").with_ansi(false).init();

    let jobs = jobs::builder().or_embedded().server_id(format!("server-{number}")).start_all().await?;
    println!("@up");
    tokio::task::spawn_blocking(wait_for_the_end).await?;
    jobs.shutdown().await;
    Ok(())
}

/// The pipe closes at the end, and also when the parent is killed, so no process outlives it.
fn wait_for_the_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

async fn compete() -> anyhow::Result<()> {
    let store = std::env::var("JOBS_URL").map_or("files on this machine", |_| "the store in JOBS_URL");
    println!("{SERVERS} servers, one job, due every second; the store: {store}.\n");

    // A namespace of its own, so that this example can run several times at once.
    let namespace = format!("ten-servers-{}", Timestamp::now().as_micros());
    let (sender, mut messages) = unbounded_channel();
    let mut servers = Vec::new();
    for number in 1..=SERVERS {
        servers.push(start(number, &namespace, sender.clone())?);
    }
    drop(sender);

    let mut ticks = Ticks::new();
    let watched = tokio::time::timeout(PATIENCE, watch(&mut messages, &mut ticks)).await;
    let first = watched.with_context(|| format!("fewer than {TICKS} ticks within {PATIENCE:?}"))??;

    for server in &mut servers {
        drop(server.stdin.take());
    }
    while let Some((server, message)) = messages.recv().await {
        note(&mut ticks, server, &message);
    }
    for server in &mut servers {
        ensure!(server.wait().await?.success(), "a server failed");
    }
    check(&ticks, first)
}

/// Killed when it is dropped.
fn start(number: usize, namespace: &str, sender: UnboundedSender<(usize, Message)>) -> anyhow::Result<Child> {
    let mut server = Command::new(std::env::current_exe()?)
        .env(NUMBER, number.to_string())
        .env("JOBS_NAMESPACE", namespace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = server.stdout.take().context("its output is piped")?;
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(message) = parse(&line) {
                let _ = sender.send((number, message)); // the example has ended
            }
        }
        let _ = sender.send((number, Message::Ended));
    });
    Ok(server)
}

/// A line that a server prints.
enum Message {
    Up,
    Ran(Timestamp),
    /// The tick as it is printed.
    Lost(String),
    Ended,
}

fn parse(line: &str) -> Option<Message> {
    if line == "@up" {
        return Some(Message::Up);
    }
    if let Some(tick) = line.strip_prefix("@ran ") {
        return Some(Message::Ran(Timestamp::from_micros(tick.parse().ok()?)));
    }
    let field = |name| line.split_once(name)?.1.split_whitespace().next();
    let lost = matches!(field("outcome=")?, r#""taken""# | r#""superseded""#);
    lost.then(|| field("tick=")).flatten().map(|tick| Message::Lost(tick.to_owned()))
}

/// The servers that won and lost each tick, by the tick's text.
type Ticks = BTreeMap<String, Tick>;

#[derive(Default)]
struct Tick {
    won: Vec<usize>,
    lost: Vec<usize>,
}

fn note(ticks: &mut Ticks, server: usize, message: &Message) {
    match message {
        Message::Ran(tick) => ticks.entry(tick.to_string()).or_default().won.push(server),
        Message::Lost(tick) => ticks.entry(tick.clone()).or_default().lost.push(server),
        Message::Up | Message::Ended => {}
    }
}

/// Shows the winners until enough ticks have passed; returns the first tick that counts.
async fn watch(
    messages: &mut UnboundedReceiver<(usize, Message)>,
    ticks: &mut Ticks,
) -> anyhow::Result<Timestamp> {
    let mut up = 0;
    let mut first = None;
    while let Some((server, message)) = messages.recv().await {
        note(ticks, server, &message);
        match message {
            Message::Up => {
                up += 1;
                if up == SERVERS {
                    println!("  UTC       {}", lane(|server| server.to_string()));
                }
            }
            Message::Ended => bail!("server {server} exited too early"),
            Message::Ran(tick) if up == SERVERS => {
                // All servers are up: they all compete for the next tick.
                let first = *first.get_or_insert(tick + SECOND);
                if counted(first).all(|counts| counts < tick) {
                    return Ok(first);
                }
                if tick >= first {
                    show(tick, server);
                }
            }
            Message::Ran(_) | Message::Lost(_) => {}
        }
    }
    bail!("no server is left")
}

fn counted(first: Timestamp) -> impl Iterator<Item = Timestamp> {
    successors(Some(first), |tick| Some(*tick + SECOND)).take(TICKS)
}

fn show(tick: Timestamp, winner: usize) {
    let lane = lane(|server| if server == winner { "●" } else { "·" }.to_owned());
    println!("  {}  {lane}   server {winner}", time_of(tick));
}

fn lane(mark: impl Fn(usize) -> String) -> String {
    (1..=SERVERS).flat_map(|server| [" ".to_owned(), mark(server)]).collect()
}

/// 12:00:03 of 2026-01-31T12:00:03Z.
fn time_of(tick: Timestamp) -> String {
    tick.to_string().chars().skip(11).take(8).collect()
}

fn check(ticks: &Ticks, first: Timestamp) -> anyhow::Result<()> {
    let unseen = Tick::default();
    let counted: Vec<_> =
        counted(first).map(|tick| (tick, ticks.get(&tick.to_string()).unwrap_or(&unseen))).collect();

    println!("\n  server   won  lost");
    let (mut runs, mut losses) = (0, 0);
    for server in 1..=SERVERS {
        let times = |servers: &Vec<usize>| servers.iter().filter(|found| **found == server).count();
        let won: usize = counted.iter().map(|(_, tick)| times(&tick.won)).sum();
        let lost: usize = counted.iter().map(|(_, tick)| times(&tick.lost)).sum();
        let line = format!("  {server:>6} {won:>5} {lost:>5}   {}", "●".repeat(won));
        println!("{}", line.trim_end());
        (runs, losses) = (runs + won, losses + lost);
    }
    println!("  {:>6} {runs:>5} {losses:>5}\n", "all");

    // Ticks while the servers start and stop count here, too.
    let twice: Vec<_> =
        ticks.iter().filter(|(_, tick)| tick.won.len() > 1).map(|(tick, _)| tick.as_str()).collect();
    let never: Vec<_> =
        counted.iter().filter(|(_, tick)| tick.won.is_empty()).map(|(tick, _)| time_of(*tick)).collect();
    ensure!(twice.is_empty(), "ran more than once: {}", twice.join(", "));
    ensure!(never.is_empty(), "did not run: {}", never.join(", "));
    println!("{} ticks, {runs} runs: every tick ran on exactly one server.", counted.len());
    Ok(())
}
