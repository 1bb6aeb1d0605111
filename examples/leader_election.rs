//! Three servers, one leader: the first leader is killed, the second resigns, and each time another server is elected.
//!
//!     cargo run --example leader_election
//!     JOBS_URL=redis://localhost:6379 cargo run --example leader_election
//!
//! Three processes of this program campaign for `cache-warmer`. It fails if two lead at the same time, if no other server is
//! elected, or if a later leader has no higher fence.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::fleet::Kind;
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
        shown = timeout(PATIENCE, show()) => shown.context("no other server was elected in time")?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the three servers: campaigns, prints each change, and resigns on request.
async fn serve(name: String) -> anyhow::Result<()> {
    let jobs = jobs::builder().or_embedded().without_jobs().server_id(name).start_all().await?;
    let campaign = jobs.leader(KEY).ttl(TTL).campaign()?;
    // The pipe closes at the end, and also when the parent is killed, so no process outlives it.
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    let request = tokio::select! {
        ended = print_changes(campaign.watch()) => return ended,
        request = requests.next_line() => request?,
    };
    if request.is_some() {
        println!("resigns {}", now());
        campaign.resign().await?;
        requests.next_line().await?;
    }
    jobs.shutdown().await;
    Ok(())
}

/// A real leader would start its work here and stop it when its term is lost; `Leader::lead` does both.
async fn print_changes(mut standing: watch::Receiver<Standing>) -> anyhow::Result<()> {
    loop {
        match &*standing.borrow_and_update() {
            Standing::Leads(term) => println!("leads {} {}", now(), term.fence()),
            Standing::Follows(leader) => {
                println!("follows {}", leader.server.as_deref().unwrap_or("unknown"));
            }
            _ => {}
        }
        standing.changed().await?;
    }
}

fn now() -> i64 {
    Timestamp::now().as_micros()
}

async fn show() -> anyhow::Result<()> {
    println!("{SERVERS} servers campaign for \"{KEY}\"; the lease of a dead leader expires after {TTL:?}.\n");
    // A namespace of its own, so that this example can run several times at once.
    let namespace = format!("leader-{}", now());
    let jobs = jobs::builder().or_embedded().without_jobs().namespace(&namespace).start_all().await?;
    let mut fleet = Fleet::new(&namespace)?;

    let first = fleet.next_leader().await?;
    fleet.show_leader(&jobs).await?;
    sleep(Duration::from_secs(2)).await;

    println!("\n{first} is killed with SIGKILL");
    fleet.kill(&first).await?;
    let second = fleet.next_leader().await?;
    println!("{second} is elected after {:.3} s, when the lease of {first} has expired", fleet.handover());
    fleet.show_leader(&jobs).await?;
    sleep(Duration::from_secs(1)).await;

    println!("\n{second} resigns");
    fleet.request_resignation(&second).await?;
    let third = fleet.next_leader().await?;
    println!("{third} is elected after {:.3} s, because {second} has released its lease", fleet.handover());
    fleet.show_leader(&jobs).await?;

    fleet.stop().await?;
    jobs.shutdown().await;
    println!("\nall servers are stopped");
    check(&fleet.terms)
}

/// The three processes, and what they have reported.
struct Fleet {
    servers: BTreeMap<String, Child>,
    campaigning: BTreeSet<String>,
    messages: UnboundedReceiver<(String, Message)>,
    terms: Vec<LeaderTerm>,
    following: BTreeMap<String, String>,
}

/// A term as its leader saw it, in microseconds of this machine's clock.
struct LeaderTerm {
    server: String,
    fence: i64,
    from: i64,
    until: Option<i64>,
}

/// A line that a server prints.
enum Message {
    Leads { from: i64, fence: i64 },
    Follows(String),
    Resigns(i64),
    Ended,
}

impl Fleet {
    fn new(namespace: &str) -> anyhow::Result<Self> {
        let (sender, messages) = unbounded_channel();
        let mut servers = BTreeMap::new();
        for number in 1..=SERVERS {
            let name = format!("server-{number}");
            servers.insert(name.clone(), start(name, namespace, sender.clone())?);
        }
        let campaigning = servers.keys().cloned().collect();
        Ok(Self { servers, campaigning, messages, terms: Vec::new(), following: BTreeMap::new() })
    }

    /// Waits for the end of the old term and the start of the new one: the messages of two processes arrive in any order.
    async fn next_leader(&mut self) -> anyhow::Result<String> {
        let known = self.terms.len();
        while self.terms.len() == known || self.terms[..known].iter().any(|term| term.until.is_none()) {
            self.receive().await?;
        }
        Ok(self.terms[known].server.clone())
    }

    /// Prints the leader that the store knows, once all other servers follow it.
    async fn show_leader(&mut self, jobs: &Jobs) -> anyhow::Result<()> {
        let leader = self.terms.last().context("no server leads")?.server.clone();
        let others: Vec<_> = self.campaigning.iter().filter(|name| **name != leader).cloned().collect();
        while !others.iter().all(|name| self.following.get(name).is_some_and(|id| is_of(id, &leader))) {
            self.receive().await?;
            let leading = self.terms.iter().filter(|term| term.until.is_none()).count();
            ensure!(leading == 1, "another server leads before the term of {leader} has ended");
        }
        let held = jobs.locks().await?;
        let held =
            held.iter().find(|held| held.kind == Some(Kind::Leader)).context("the store knows no leader")?;
        let (fence, since) = (held.fence.context("the lock has no fence")?, held.holder.since);
        let since = since.context("the lock has no start")?.to_string();
        ensure!(
            held.holder.server.as_deref().is_some_and(|id| is_of(id, &leader)),
            "the store knows another leader than {leader}"
        );
        println!("  {leader} leads with fence {fence} since {}", &since[11..]);
        for other in others {
            println!("  {other} follows");
        }
        Ok(())
    }

    async fn receive(&mut self) -> anyhow::Result<()> {
        let (server, message) = self.messages.recv().await.context("no server is left")?;
        match message {
            Message::Leads { from, fence } => {
                self.terms.push(LeaderTerm { server, fence, from, until: None });
            }
            Message::Follows(leader) => drop(self.following.insert(server, leader)),
            Message::Resigns(at) => self.end_term(&server, at)?,
            Message::Ended => ensure!(!self.campaigning.contains(&server), "{server} exited too early"),
        }
        Ok(())
    }

    async fn kill(&mut self, leader: &str) -> anyhow::Result<()> {
        self.campaigning.remove(leader);
        let mut process = self.servers.remove(leader).context("the server does not run")?;
        process.kill().await?;
        self.end_term(leader, now())
    }

    fn end_term(&mut self, leader: &str, at: i64) -> anyhow::Result<()> {
        let term = self.terms.iter_mut().rfind(|term| term.server == leader);
        term.with_context(|| format!("{leader} did not lead"))?.until = Some(at);
        Ok(())
    }

    async fn request_resignation(&mut self, leader: &str) -> anyhow::Result<()> {
        self.campaigning.remove(leader);
        let requests = self.servers.get_mut(leader).and_then(|process| process.stdin.as_mut());
        Ok(requests.context("its input is piped")?.write_all(b"resign\n").await?)
    }

    /// The seconds without a leader.
    fn handover(&self) -> f64 {
        match self.terms.as_slice() {
            [.., LeaderTerm { until: Some(until), .. }, next] => {
                Duration::from_micros(next.from.abs_diff(*until)).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        for (name, process) in &mut self.servers {
            drop(process.stdin.take());
            ensure!(process.wait().await?.success(), "{name} failed");
        }
        Ok(())
    }
}

/// The store knows servers by their ids: `server-1-4711-a0b1c2`.
fn is_of(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
}

/// Killed when it is dropped.
fn start(name: String, namespace: &str, sender: UnboundedSender<(String, Message)>) -> anyhow::Result<Child> {
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
            if let Some(message) = parse(&line) {
                let _ = sender.send((name.clone(), message)); // the example has ended
            }
        }
        let _ = sender.send((name, Message::Ended));
    });
    Ok(server)
}

fn parse(line: &str) -> Option<Message> {
    let words: Vec<_> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["leads", from, fence] => {
            Some(Message::Leads { from: from.parse().ok()?, fence: fence.parse().ok()? })
        }
        ["follows", leader] => Some(Message::Follows(leader.to_owned())),
        ["resigns", at] => Some(Message::Resigns(at.parse().ok()?)),
        _ => None,
    }
}

fn check(terms: &[LeaderTerm]) -> anyhow::Result<()> {
    for pair in terms.windows(2) {
        let (term, next) = (&pair[0], &pair[1]);
        let until = term.until.with_context(|| format!("the term of {} has no end", term.server))?;
        ensure!(until <= next.from, "{} and {} led at the same time", term.server, next.server);
        ensure!(term.fence < next.fence, "{} has no higher fence than {}", next.server, term.server);
    }
    println!("{} terms: never two leaders at the same time, and each term has a higher fence.", terms.len());
    Ok(())
}
