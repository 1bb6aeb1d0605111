//! Leader election among three servers: the leader is killed, the next one resigns, and each time another takes over.
//!
//!     cargo run --example leader_election
//!     JOBS_URL=redis://localhost:6379 cargo run --example leader_election
//!
//! Three processes of this program are candidates for `cache-warmer`. The program fails if two lead at the same time, if
//! no other server takes over, or if a later leader has no higher fence.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::fleet::LeaseKind;
use jobs::locks::LeaderStatus;
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
        shown = timeout(PATIENCE, show()) => shown.context("no server took over in time")?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the three servers: a candidate that reports its status, and resigns on request.
async fn serve(name: String) -> anyhow::Result<()> {
    let jobs = jobs::builder().or_embedded().without_jobs().server_id(name).start_all().await?;
    let candidate = jobs.leader(KEY).ttl(TTL).campaign()?;
    // The pipe closes at the end, and also when the parent is killed: no server keeps running.
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    let request = tokio::select! {
        result = report(candidate.watch()) => return result,
        request = requests.next_line() => request?,
    };
    if request.is_some() {
        println!("resigns {}", now());
        candidate.resign().await?;
        requests.next_line().await?;
    }
    jobs.shutdown().await;
    Ok(())
}

/// A leader would start its work here, and stop it when its leadership is lost; `Leader::lead` does both.
async fn report(mut status: watch::Receiver<LeaderStatus>) -> anyhow::Result<()> {
    loop {
        match &*status.borrow_and_update() {
            LeaderStatus::Leading(leadership) => println!("leads {} {}", now(), leadership.fence()),
            LeaderStatus::Following(leader) => {
                println!("follows {}", leader.server.as_deref().unwrap_or("unknown"));
            }
            _ => {}
        }
        status.changed().await?;
    }
}

fn now() -> i64 {
    Timestamp::now().as_micros()
}

async fn show() -> anyhow::Result<()> {
    println!("{SERVERS} candidates for \"{KEY}\"; the lease of a leader that dies expires after {TTL:?}.\n");
    // A namespace of its own: this example may run several times on one store.
    let namespace = format!("leader-{}", now());
    let jobs = jobs::builder().or_embedded().without_jobs().namespace(&namespace).start_all().await?;
    let mut group = Group::new(&namespace)?;

    let first = group.next_leader().await?;
    group.show_leader(&jobs).await?;
    sleep(Duration::from_secs(2)).await;

    println!("\n{first} is killed, with kill -9");
    group.kill(&first).await?;
    let second = group.next_leader().await?;
    println!("{:.3} s later {second} takes over: the lease of {first} has expired", group.handover());
    group.show_leader(&jobs).await?;
    sleep(Duration::from_secs(1)).await;

    println!("\n{second} resigns");
    group.ask_to_resign(&second).await?;
    let third = group.next_leader().await?;
    println!("{:.3} s later {third} takes over: the lease of {second} was released", group.handover());
    group.show_leader(&jobs).await?;

    group.stop().await?;
    jobs.shutdown().await;
    println!("\nall servers are stopped");
    check(&group.terms)
}

/// The three processes, and what they reported.
struct Group {
    servers: BTreeMap<String, Child>,
    candidates: BTreeSet<String>,
    reports: UnboundedReceiver<(String, Report)>,
    terms: Vec<Term>,
    following: BTreeMap<String, String>,
}

/// The time in which one server led, as it reported it, in microseconds of this machine's clock.
struct Term {
    server: String,
    fence: i64,
    from: i64,
    until: Option<i64>,
}

/// A line that a server prints.
enum Report {
    Leads { from: i64, fence: i64 },
    Follows(String),
    Resigns(i64),
    Ended,
}

impl Group {
    fn new(namespace: &str) -> anyhow::Result<Self> {
        let (sender, reports) = unbounded_channel();
        let mut servers = BTreeMap::new();
        for number in 1..=SERVERS {
            let name = format!("server-{number}");
            servers.insert(name.clone(), start(name, namespace, sender.clone())?);
        }
        let candidates = servers.keys().cloned().collect();
        Ok(Self { servers, candidates, reports, terms: Vec::new(), following: BTreeMap::new() })
    }

    /// Waits for both ends of the handover: the reports of two processes arrive in any order.
    async fn next_leader(&mut self) -> anyhow::Result<String> {
        let known = self.terms.len();
        while self.terms.len() == known || self.terms[..known].iter().any(|term| term.until.is_none()) {
            self.listen().await?;
        }
        Ok(self.terms[known].server.clone())
    }

    /// Prints the leader as the store reports it, once all other servers follow it.
    async fn show_leader(&mut self, jobs: &Jobs) -> anyhow::Result<()> {
        let leader = self.terms.last().context("no server leads")?.server.clone();
        let others: Vec<_> = self.candidates.iter().filter(|name| **name != leader).cloned().collect();
        while !others.iter().all(|name| self.following.get(name).is_some_and(|id| is_of(id, &leader))) {
            self.listen().await?;
            let leading = self.terms.iter().filter(|term| term.until.is_none()).count();
            ensure!(leading == 1, "another server leads, but {leader} has not ended");
        }
        let held = jobs.locks().await?;
        let held =
            held.iter().find(|held| held.kind == Some(LeaseKind::Leader)).context("no server leads")?;
        let (fence, since) = (held.fence.context("it has a fence")?, held.holder.since);
        let since = since.context("it has a beginning")?.to_string();
        ensure!(
            held.holder.server.as_deref().is_some_and(|id| is_of(id, &leader)),
            "the store knows another leader than {leader}"
        );
        println!("  {leader} leads with fence {fence}, since {}", &since[11..]);
        for other in others {
            println!("  {other} follows");
        }
        Ok(())
    }

    async fn listen(&mut self) -> anyhow::Result<()> {
        let (server, report) = self.reports.recv().await.context("no server is left")?;
        match report {
            Report::Leads { from, fence } => self.terms.push(Term { server, fence, from, until: None }),
            Report::Follows(leader) => drop(self.following.insert(server, leader)),
            Report::Resigns(at) => self.end_term(&server, at)?,
            Report::Ended => ensure!(!self.candidates.contains(&server), "{server} ended too early"),
        }
        Ok(())
    }

    async fn kill(&mut self, leader: &str) -> anyhow::Result<()> {
        self.candidates.remove(leader);
        let mut process = self.servers.remove(leader).context("it runs")?;
        process.kill().await?;
        self.end_term(leader, now())
    }

    fn end_term(&mut self, leader: &str, at: i64) -> anyhow::Result<()> {
        let term = self.terms.iter_mut().rfind(|term| term.server == leader);
        term.with_context(|| format!("{leader} did not lead"))?.until = Some(at);
        Ok(())
    }

    async fn ask_to_resign(&mut self, leader: &str) -> anyhow::Result<()> {
        self.candidates.remove(leader);
        let input = self.servers.get_mut(leader).and_then(|process| process.stdin.as_mut());
        Ok(input.context("its input is piped")?.write_all(b"resign\n").await?)
    }

    /// The time without a leader, in seconds.
    fn handover(&self) -> f64 {
        match self.terms.as_slice() {
            [.., Term { until: Some(until), .. }, next] => {
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
fn start(name: String, namespace: &str, sender: UnboundedSender<(String, Report)>) -> anyhow::Result<Child> {
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
            if let Some(report) = parse_report(&line) {
                let _ = sender.send((name.clone(), report)); // the program ends
            }
        }
        let _ = sender.send((name, Report::Ended));
    });
    Ok(server)
}

fn parse_report(line: &str) -> Option<Report> {
    let words: Vec<_> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["leads", from, fence] => {
            Some(Report::Leads { from: from.parse().ok()?, fence: fence.parse().ok()? })
        }
        ["follows", leader] => Some(Report::Follows(leader.to_owned())),
        ["resigns", at] => Some(Report::Resigns(at.parse().ok()?)),
        _ => None,
    }
}

fn check(terms: &[Term]) -> anyhow::Result<()> {
    for pair in terms.windows(2) {
        let (term, next) = (&pair[0], &pair[1]);
        let until = term.until.with_context(|| format!("{} stopped leading by itself", term.server))?;
        ensure!(until <= next.from, "{} and {} led at the same time", term.server, next.server);
        ensure!(term.fence < next.fence, "{} has no higher fence than {}", next.server, term.server);
    }
    println!("{} leaders: never two at the same time, each with a higher fence.", terms.len());
    Ok(())
}
