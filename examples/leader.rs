//! Three servers, one leader: it is killed, the next one resigns, and each time another takes over.
//!
//!     cargo run --example leader
//!     JOBS_URL=redis://localhost:6379 cargo run --example leader
//!
//! Three processes of this program campaign for `cache-warmer`. It ends with an error if two led at the same time, if
//! nobody took over, or if a later leader had no higher fence.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::fleet::LeaseKind;
use jobs::locks::Standing;
use jobs::{Jobs, Timestamp};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const KEY: &str = "cache-warmer";
const TTL: Duration = Duration::from_secs(3);
const SERVERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Some(name) = std::env::args().nth(1) {
        return serve(name).await;
    }
    tokio::select! {
        shown = timeout(PATIENCE, show()) => shown.context("nobody took over in time")?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the three: campaigns, tells what it learns, and resigns when it is told to.
async fn serve(name: String) -> anyhow::Result<()> {
    let jobs = jobs::builder().or_embedded().without_jobs().server_name(name).start_all().await?;
    let campaign = jobs.leader(KEY).ttl(TTL).campaign()?;
    // The pipe closes at the end, and also when the parent was killed: no server is left behind.
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let order = tokio::select! {
        told = tell(campaign.watch()) => return told,
        order = orders.next_line() => order?,
    };
    if order.is_some() {
        println!("resigns {}", now());
        campaign.resign().await?;
        orders.next_line().await?;
    }
    jobs.shutdown().await;
    Ok(())
}

/// A leader would begin its work here, and end it when its term is lost; `Leader::lead` does both.
async fn tell(mut standing: watch::Receiver<Standing>) -> anyhow::Result<()> {
    loop {
        match &*standing.borrow_and_update() {
            Standing::Leads(term) => println!("leads {} {}", now(), term.fence()),
            Standing::Follows(leader) => println!("follows {}", leader.server.as_deref().unwrap_or("nobody")),
            _ => {}
        }
        standing.changed().await?;
    }
}

fn now() -> i64 {
    Timestamp::now().as_micros()
}

async fn show() -> anyhow::Result<()> {
    println!("{SERVERS} servers campaign for \"{KEY}\"; without a sign of life a term ends after {TTL:?}.\n");
    // A namespace of its own: others may be looking at this example, too.
    let namespace = format!("leader-{}", now());
    let jobs = jobs::builder().or_embedded().without_jobs().namespace(&namespace).start_all().await?;
    let mut stage = Stage::new(&namespace)?;

    let first = stage.next_leader().await?;
    stage.show_leader(&jobs).await?;
    sleep(Duration::from_secs(2)).await;

    println!("\n{first} is killed, with kill -9");
    stage.kill(&first).await?;
    let second = stage.next_leader().await?;
    println!("{:.3} s later {second} takes over: the lease of {first} has expired", stage.handover());
    stage.show_leader(&jobs).await?;
    sleep(Duration::from_secs(1)).await;

    println!("\n{second} is told to resign");
    stage.order_to_resign(&second).await?;
    let third = stage.next_leader().await?;
    println!("{:.3} s later {third} takes over: the lease of {second} was released", stage.handover());
    stage.show_leader(&jobs).await?;

    stage.stop().await?;
    jobs.shutdown().await;
    println!("\nall are stopped");
    judge(&stage.terms)
}

/// The three processes, and what is known of them.
struct Stage {
    servers: BTreeMap<String, Child>,
    campaigning: BTreeSet<String>,
    heard: UnboundedReceiver<(String, Word)>,
    terms: Vec<Office>,
    following: BTreeMap<String, String>,
}

/// A term as its leader saw it, in microseconds of this machine's clock.
struct Office {
    server: String,
    fence: i64,
    from: i64,
    until: Option<i64>,
}

/// What a server says.
enum Word {
    Leads { from: i64, fence: i64 },
    Follows(String),
    Resigns(i64),
    Ended,
}

impl Stage {
    fn new(namespace: &str) -> anyhow::Result<Self> {
        let (tell, heard) = unbounded_channel();
        let mut servers = BTreeMap::new();
        for number in 1..=SERVERS {
            let name = format!("server-{number}");
            servers.insert(name.clone(), start(name, namespace, tell.clone())?);
        }
        let campaigning = servers.keys().cloned().collect();
        Ok(Self { servers, campaigning, heard, terms: Vec::new(), following: BTreeMap::new() })
    }

    /// Waits for both ends of the handover: the words of two processes arrive in any order.
    async fn next_leader(&mut self) -> anyhow::Result<String> {
        let known = self.terms.len();
        while self.terms.len() == known || self.terms[..known].iter().any(|term| term.until.is_none()) {
            self.listen().await?;
        }
        Ok(self.terms[known].server.clone())
    }

    /// As the store has it, once all others know it, too.
    async fn show_leader(&mut self, jobs: &Jobs) -> anyhow::Result<()> {
        let leader = self.terms.last().context("somebody leads")?.server.clone();
        let others: Vec<_> = self.campaigning.iter().filter(|name| **name != leader).cloned().collect();
        while !others.iter().all(|name| self.following.get(name).is_some_and(|id| is_of(id, &leader))) {
            self.listen().await?;
            let leading = self.terms.iter().filter(|term| term.until.is_none()).count();
            ensure!(leading == 1, "another one leads, and nobody has ended the term of {leader}");
        }
        let held = jobs.locks().await?;
        let held = held.iter().find(|held| held.kind == Some(LeaseKind::Leader)).context("nobody leads")?;
        let (fence, since) = (held.fence.context("it has a fence")?, held.holder.since);
        let since = since.context("it has a beginning")?.to_string();
        ensure!(
            held.holder.server.as_deref().is_some_and(|id| is_of(id, &leader)),
            "the store knows another leader than {leader}"
        );
        println!("  {leader} leads under the fence {fence}, since {}", &since[11..]);
        for other in others {
            println!("  {other} follows");
        }
        Ok(())
    }

    async fn listen(&mut self) -> anyhow::Result<()> {
        let (server, word) = self.heard.recv().await.context("no server is left")?;
        match word {
            Word::Leads { from, fence } => self.terms.push(Office { server, fence, from, until: None }),
            Word::Follows(leader) => drop(self.following.insert(server, leader)),
            Word::Resigns(at) => self.end_term(&server, at)?,
            Word::Ended => ensure!(!self.campaigning.contains(&server), "{server} ended too early"),
        }
        Ok(())
    }

    async fn kill(&mut self, leader: &str) -> anyhow::Result<()> {
        self.campaigning.remove(leader);
        let mut process = self.servers.remove(leader).context("it runs")?;
        process.kill().await?;
        self.end_term(leader, now())
    }

    fn end_term(&mut self, leader: &str, at: i64) -> anyhow::Result<()> {
        let term = self.terms.iter_mut().rfind(|term| term.server == leader);
        term.with_context(|| format!("{leader} did not lead"))?.until = Some(at);
        Ok(())
    }

    async fn order_to_resign(&mut self, leader: &str) -> anyhow::Result<()> {
        self.campaigning.remove(leader);
        let orders = self.servers.get_mut(leader).and_then(|process| process.stdin.as_mut());
        Ok(orders.context("its input is piped")?.write_all(b"resign\n").await?)
    }

    /// How long nobody led, in seconds.
    fn handover(&self) -> f64 {
        match self.terms.as_slice() {
            [.., Office { until: Some(until), .. }, next] => {
                Duration::from_micros(next.from.abs_diff(*until)).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        for (name, process) in &mut self.servers {
            drop(process.stdin.take());
            ensure!(process.wait().await?.success(), "{name} did not end well");
        }
        Ok(())
    }
}

/// The store knows servers by their ids: `server-1-4711-a0b1c2`.
fn is_of(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
}

/// Killed when it is dropped.
fn start(name: String, namespace: &str, tell: UnboundedSender<(String, Word)>) -> anyhow::Result<Child> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg(&name)
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
                let _ = tell.send((name.clone(), word)); // all is over
            }
        }
        let _ = tell.send((name, Word::Ended));
    });
    Ok(server)
}

fn understand(line: &str) -> Option<Word> {
    let words: Vec<_> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["leads", from, fence] => Some(Word::Leads { from: from.parse().ok()?, fence: fence.parse().ok()? }),
        ["follows", leader] => Some(Word::Follows(leader.to_owned())),
        ["resigns", at] => Some(Word::Resigns(at.parse().ok()?)),
        _ => None,
    }
}

fn judge(terms: &[Office]) -> anyhow::Result<()> {
    for pair in terms.windows(2) {
        let (term, next) = (&pair[0], &pair[1]);
        let until = term.until.with_context(|| format!("the term of {} ended by itself", term.server))?;
        ensure!(until <= next.from, "{} and {} led at the same time", term.server, next.server);
        ensure!(term.fence < next.fence, "{} has no higher fence than {}", next.server, term.server);
    }
    println!("{} terms: never two leaders at the same time, each with a higher fence.", terms.len());
    Ok(())
}
