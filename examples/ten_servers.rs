//! Ten servers, one job, due every second: each tick runs on one of them.
//!
//!     cargo run --example ten_servers
//!     JOBS_URL=redis://localhost:6379 cargo run --example ten_servers
//!
//! Ten real processes of this program race for every tick, 15 ticks long. It ends with an error if a tick ran
//! twice or not at all.

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

/// Set for the ten processes: which of them it is.
const NUMBER: &str = "TEN_SERVERS_NUMBER";

/// Over in no time: a plain lock would be free again when the slower servers ask for it.
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
        raced = race() => raced,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the ten. A server that loses a tick says so in one quiet line of its log; the race reads it.
async fn serve(number: &str) -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("jobs=debug").with_ansi(false).init();

    let jobs = jobs::builder().or_embedded().server_id(format!("server-{number}")).start_all().await?;
    println!("@up");
    tokio::task::spawn_blocking(wait_for_the_end).await?;
    jobs.shutdown().await;
    Ok(())
}

/// The pipe closes when the race is over, and also when its process was killed: no server is left behind.
fn wait_for_the_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

async fn race() -> anyhow::Result<()> {
    let store = std::env::var("JOBS_URL").map_or("files on this machine", |_| "the store in JOBS_URL");
    println!("{SERVERS} servers, one job, due every second; claims are decided by {store}.\n");

    // A namespace of its own: other people may be watching a race, too.
    let namespace = format!("ten-servers-{}", Timestamp::now().as_micros());
    let (tell, mut heard) = unbounded_channel();
    let mut servers = Vec::new();
    for number in 1..=SERVERS {
        servers.push(start(number, &namespace, tell.clone())?);
    }
    drop(tell);

    let mut ticks = Ticks::new();
    let watched = tokio::time::timeout(PATIENCE, watch(&mut heard, &mut ticks)).await;
    let first = watched.with_context(|| format!("no {TICKS} ticks within {PATIENCE:?}"))??;

    for server in &mut servers {
        drop(server.stdin.take());
    }
    while let Some((server, word)) = heard.recv().await {
        note(&mut ticks, server, &word);
    }
    for server in &mut servers {
        ensure!(server.wait().await?.success(), "a server did not end well");
    }
    judge(&ticks, first)
}

/// Killed when it is dropped.
fn start(number: usize, namespace: &str, tell: UnboundedSender<(usize, Word)>) -> anyhow::Result<Child> {
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
            if let Some(word) = understand(&line) {
                let _ = tell.send((number, word)); // the race is over
            }
        }
        let _ = tell.send((number, Word::Ended));
    });
    Ok(server)
}

/// What a server says.
enum Word {
    Up,
    Ran(Timestamp),
    /// The tick as it is printed.
    Lost(String),
    Ended,
}

fn understand(line: &str) -> Option<Word> {
    if line == "@up" {
        return Some(Word::Up);
    }
    if let Some(tick) = line.strip_prefix("@ran ") {
        return Some(Word::Ran(Timestamp::from_micros(tick.parse().ok()?)));
    }
    let field = |name| line.split_once(name)?.1.split_whitespace().next();
    let lost = matches!(field("outcome=")?, r#""taken""# | r#""superseded""#);
    lost.then(|| field("tick=")).flatten().map(|tick| Word::Lost(tick.to_owned()))
}

/// Every tick as it is printed, and which servers won and lost it.
type Ticks = BTreeMap<String, Tick>;

#[derive(Default)]
struct Tick {
    won: Vec<usize>,
    lost: Vec<usize>,
}

fn note(ticks: &mut Ticks, server: usize, word: &Word) {
    match word {
        Word::Ran(tick) => ticks.entry(tick.to_string()).or_default().won.push(server),
        Word::Lost(tick) => ticks.entry(tick.clone()).or_default().lost.push(server),
        Word::Up | Word::Ended => {}
    }
}

/// Shows who wins, until enough ticks have passed; returns the first that counts.
async fn watch(heard: &mut UnboundedReceiver<(usize, Word)>, ticks: &mut Ticks) -> anyhow::Result<Timestamp> {
    let mut up = 0;
    let mut first = None;
    while let Some((server, word)) = heard.recv().await {
        note(ticks, server, &word);
        match word {
            Word::Up => {
                up += 1;
                if up == SERVERS {
                    println!("  UTC       {}", lane(|server| server.to_string()));
                }
            }
            Word::Ended => bail!("server {server} ended before the race did"),
            Word::Ran(tick) if up == SERVERS => {
                // All are up: the tick after this one is the first that all of them race for.
                let first = *first.get_or_insert(tick.plus(SECOND));
                if counted(first).all(|counts| counts < tick) {
                    return Ok(first);
                }
                if tick >= first {
                    show(tick, server);
                }
            }
            Word::Ran(_) | Word::Lost(_) => {}
        }
    }
    bail!("no server is left")
}

fn counted(first: Timestamp) -> impl Iterator<Item = Timestamp> {
    successors(Some(first), |tick| Some(tick.plus(SECOND))).take(TICKS)
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

fn judge(ticks: &Ticks, first: Timestamp) -> anyhow::Result<()> {
    let nobody = Tick::default();
    let counted: Vec<_> =
        counted(first).map(|tick| (tick, ticks.get(&tick.to_string()).unwrap_or(&nobody))).collect();

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

    // A second run would be one too many at any time, also while the servers start and stop.
    let twice: Vec<_> =
        ticks.iter().filter(|(_, tick)| tick.won.len() > 1).map(|(tick, _)| tick.as_str()).collect();
    let never: Vec<_> =
        counted.iter().filter(|(_, tick)| tick.won.is_empty()).map(|(tick, _)| time_of(*tick)).collect();
    ensure!(twice.is_empty(), "ran more than once: {}", twice.join(", "));
    ensure!(never.is_empty(), "did not run: {}", never.join(", "));
    println!("{} ticks, {runs} runs: every tick ran on one server, and on one only.", counted.len());
    Ok(())
}
