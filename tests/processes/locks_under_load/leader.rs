//! Leaders that are killed, stopped and woken, and resign: no two of them lead at once.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use tokio::time::Instant;

use super::ground::{Ground, repetitions};
use super::judge::{leases, median, number, words};
use super::process::{client, random, sleep_millis, witnessed};
use super::witness::now;
use support::fleet::{Orders, Worker, wait_for, wait_until};
use support::worker::{orders, tell};

const KEY: &str = "cron-scheduler";
const TTL: Duration = Duration::from_secs(1);
const CANDIDATES: usize = 4;

/// While it leads it says so every few milliseconds, with the time before it looked whether it does, so that a process
/// that is stopped between the look and the word says nothing wrong.
pub async fn process() {
    let jobs = witnessed().await;
    let mut orders = orders();
    let campaign = jobs.leader(KEY).ttl(TTL).campaign().expect("a scheduler that runs");
    tell("ready");
    loop {
        let term = campaign.elected().await.expect("a scheduler that runs");
        let fence = term.fence();
        tell(&format!("begins {fence} {}", now()));
        loop {
            let looked = now();
            if term.is_lost() {
                tell(&format!("over {fence} {}", now()));
                break;
            }
            tell(&format!("leads {fence} {looked}"));
            if orders.try_recv().is_ok() {
                tell(&format!("resigns {fence} {}", now()));
                term.resign().await.expect("the store is there");
                tell(&format!("over {fence} {}", now()));
                break;
            }
            sleep_millis(4).await;
        }
    }
}

/// The control: looks whether the lock is still its own, and then renews it; between two renewals it just leads.
pub async fn naive_process() {
    let mut client = client().await;
    let own = std::process::id();
    tell("ready");
    let mut fence = 0_i64;
    loop {
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(own).arg("NX").arg("PX").arg(1000);
        let won: Option<String> = set.query_async(&mut client).await.expect("an answer");
        if won.is_none() {
            sleep_millis(20).await;
            continue;
        }
        fence = now().max(fence + 1);
        tell(&format!("begins {fence} {}", now()));
        let mut renews = Instant::now() + TTL / 3;
        loop {
            sleep_millis(4).await;
            tell(&format!("leads {fence} {}", now()));
            if Instant::now() < renews {
                continue;
            }
            let holder: Option<u32> =
                redis::cmd("GET").arg(KEY).query_async(&mut client).await.expect("an answer");
            if holder != Some(own) {
                break;
            }
            let mut renew = redis::cmd("PEXPIRE");
            let _renewed: u32 = renew.arg(KEY).arg(1000).query_async(&mut client).await.expect("an answer");
            renews = Instant::now() + TTL / 3;
        }
        tell(&format!("over {fence} {}", now()));
    }
}

struct Candidates {
    orders: Orders,
    running: Vec<Worker>,
    dead: Vec<Worker>,
}

/// A term as its process saw it.
#[derive(Clone, Debug, Default)]
struct Term {
    begins: i64,
    leads_last: i64,
    resigns: Option<i64>,
}

impl Candidates {
    fn start(role: &str, ground: &Ground) -> Self {
        let orders = ground.orders(role);
        Self { running: orders.start_fleet(CANDIDATES), dead: Vec::new(), orders }
    }

    /// Who leads after this term: its place, and its own term.
    fn leader_after(&self, term: i64) -> (usize, i64) {
        let leads = |(index, worker): (usize, &Worker)| {
            let newest = worker.newest();
            let word = words(&newest, "begins").or_else(|| words(&newest, "leads"))?;
            Some((index, number(word[0]))).filter(|(_, fence)| *fence > term)
        };
        wait_for("another leader", || self.running.iter().enumerate().find_map(leads))
    }

    fn kill(&mut self, index: usize) {
        self.running[index].kill();
        let next = self.orders.start();
        self.dead.push(std::mem::replace(&mut self.running[index], next));
    }

    /// Stops the leader, wakes it when another one leads, and waits until it has heard of that.
    fn stop_and_wake(&self, index: usize, term: i64) {
        self.running[index].signal("-STOP");
        self.leader_after(term);
        sleep(Duration::from_millis(random(300)));
        self.running[index].signal("-CONT");
        let over = format!("over {term} ");
        wait_until("the old leader to know", || {
            let told = self.running[index].told();
            told.iter().rev().take(2000).any(|line| line.starts_with(&over))
        });
    }

    fn all(&self) -> impl Iterator<Item = &Worker> {
        self.dead.iter().chain(&self.running)
    }

    fn terms(&self) -> BTreeMap<i64, Term> {
        let mut terms = BTreeMap::<i64, Term>::new();
        for line in self.all().flat_map(Worker::told) {
            let find = |first| words(&line, first).map(|word| (number(word[0]), number(word[1])));
            if let Some((fence, at)) = find("begins") {
                terms.entry(fence).or_default().begins = at;
            } else if let Some((fence, at)) = find("leads") {
                terms.entry(fence).or_default().leads_last = at;
            } else if let Some((fence, at)) = find("resigns") {
                terms.entry(fence).or_default().resigns = Some(at);
            }
        }
        terms
    }
}

/// The terms that somebody believed in after the next one had begun.
fn overlaps(terms: &BTreeMap<i64, Term>, begins: impl Fn(i64, &Term) -> i64) -> Vec<(Term, Term)> {
    let mut next = terms.iter().skip(1);
    let pairs = terms.values().map_while(|term| Some((term, next.next()?)));
    let overlap = pairs.filter(|(term, (fence, next))| term.leads_last >= begins(**fence, next));
    overlap.map(|(term, (_, next))| (term.clone(), next.clone())).collect()
}

#[test]
fn leaders_never_overlap_while_they_are_killed_and_stopped() {
    let (handovers, resignations) = (repetitions("JOBS_TEST_HANDOVERS", 20), 7);
    let ground = Ground::redis();
    let mut candidates = Candidates::start("candidate", &ground);
    let mut killed = Vec::new();
    let (mut leader, mut term) = candidates.leader_after(0);
    for handover in 0..handovers {
        if handover % 2 == 0 {
            candidates.kill(leader);
            killed.push((term, now()));
        } else {
            candidates.stop_and_wake(leader, term);
        }
        (leader, term) = candidates.leader_after(term);
        sleep(Duration::from_millis(random(200)));
    }
    for _ in 0..resignations {
        candidates.running[leader].order("resign");
        (leader, term) = candidates.leader_after(term);
        // Whoever resigned is back after 1–2 s: there is always one to hand over to.
        sleep(Duration::from_millis(750));
    }
    let terms = candidates.terms();
    let leases: BTreeMap<_, _> =
        leases(candidates.all()).into_values().map(|held| (held.fence, held.since)).collect();
    let beside = overlaps(&terms, |fence, _| leases[&fence]);
    let next_after = |term: i64| terms.range(term + 1..).next().expect("somebody led after it").1.begins;
    let after_crash: Vec<_> = killed.iter().map(|(term, at)| next_after(*term) - at).collect();
    let resigned = terms.iter().filter_map(|(fence, term)| Some((*fence, term.resigns?)));
    let after_resigning: Vec<_> = resigned.map(|(term, at)| next_after(term) - at).collect();
    let millis = |micros: i64| micros / 1000;
    println!(
        "{} terms, {} beside another; handover after a crash: median {} ms, at most {} ms with a ttl of 1 s; after a \
         resignation: median {} ms, at most {} ms",
        terms.len(),
        beside.len(),
        millis(median(after_crash.clone())),
        millis(*after_crash.iter().max().expect("some")),
        millis(median(after_resigning.clone())),
        millis(*after_resigning.iter().max().expect("some")),
    );
    assert!(terms.len() > handovers + resignations, "{} terms", terms.len());
    assert!(beside.is_empty(), "a leader spoke after the store had let another one lead: {beside:?}");
    assert_eq!(after_resigning.len(), resignations);
    // Medians, because a process of a busy machine may have to wait for its turn for longer than for the lock.
    assert!(median(after_crash) <= 2_000_000, "within the ttl and a second");
    assert!(median(after_resigning) < 200_000, "at once");
}

#[test]
fn naive_leaders_that_poll_overlap() {
    let ground = Ground::redis();
    let candidates = Candidates::start("careless candidate", &ground);
    let (mut leader, mut term) = candidates.leader_after(0);
    for _ in 0..3 {
        candidates.stop_and_wake(leader, term);
        (leader, term) = candidates.leader_after(term);
    }
    let beside = overlaps(&candidates.terms(), |_, next| next.begins).len();
    println!("the control: {beside} careless leaders of 3 led beside another");
    assert!(beside > 0, "the control never overlaps, so nothing is measured");
}
