//! Processes that book payments, and are killed at random instants.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::{Job, Run};
use support::child::{Child, role, tell, wait_for_parent};
use support::server::random;

use crate::TestBank;
use support::bank::{Bank, Booking, Steps};

const ENTRY: &str = "kills::worker_process_books_payments";

/// A worker begins here; without a parent it has nothing to do.
#[test]
fn worker_process_books_payments() {
    let Some((role, folder)) = role() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(work(&role, Path::new(&folder)));
}

/// Waits for a random time at each step, so that kills meet all of them.
struct RandomPauses;

async fn pause(longest: u64) {
    tokio::time::sleep(Duration::from_millis(random() % (longest + 1))).await;
}

impl Steps for RandomPauses {
    async fn booked(&self) {
        pause(20).await;
    }

    async fn checked(&self) {
        pause(5).await;
    }
}

async fn work(role: &str, folder: &Path) {
    let parts: Vec<_> = role.split_whitespace().collect();
    let [booking, fleet, url] = parts[..] else { panic!("{role}") };
    let booking = if booking == "finish" { Booking::Finish } else { Booking::Unprotected };
    let job = |number: u32| {
        let (bank, fleet, journal) = (Bank::at(url), fleet.to_owned(), folder.join("journal"));
        let run = move |run: Run| {
            let (bank, fleet, journal) = (bank.clone(), fleet.clone(), journal.clone());
            async move {
                note(&journal, &run);
                bank.book(&run, &fleet, (booking, number), &RandomPauses).await?;
                // A kill here is after the commit, and before the release.
                pause(30).await;
                anyhow::Ok(())
            }
        };
        let job = Job::builder(format!("pay-{number:03}"))
            .every(format!("{INTERVAL:?}"))
            .ttl("1s")
            .retry_on_crash(20);
        job.retries(5, "20ms").run(run).build().expect("a job")
    };
    let builder = jobs::builder().url(url).namespace(fleet).without_annotated().jobs((0..JOBS).map(job));
    let jobs = builder.start_all().await.expect("a server");
    tell("ready");
    tokio::task::spawn_blocking(wait_for_parent).await.expect("a thread");
    jobs.shutdown().await;
}

const JOBS: u32 = 150;

/// Servers are killed in the first part of each interval. In the rest, ticks are taken over: the next one would supersede them.
const INTERVAL: Duration = Duration::from_secs(10);
const KILLING: Duration = Duration::from_secs(4);
const TAKING_OVER: Duration = Duration::from_secs(5);

fn is_killing() -> bool {
    let now = jobs::Timestamp::now().as_micros().unsigned_abs();
    Duration::from_micros(now % u64::try_from(INTERVAL.as_micros()).unwrap()) < KILLING
}

/// Writes down that a run has begun: one line, which a kill does not cut.
fn note(journal: &Path, run: &Run) {
    let line = format!("{} {}\n", run.key(), run.tick().map_or(0, jobs::Timestamp::as_micros));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(journal).expect("a journal");
    file.write_all(line.as_bytes()).expect("a line");
}

/// The begun ticks, each with the number of times it was booked.
async fn booked_ticks(bank: &TestBank, booking: &str, ticks: usize) -> Vec<((String, i64), i64)> {
    let role = format!("{booking} {} {}", bank.namespace, bank.bank.url());
    let folder = bank.folder.path();
    let spawn = || Child::spawn(ENTRY, &role, folder);
    let mut servers: Vec<Child> = (0..4).map(|_| spawn()).collect();
    for server in &mut servers {
        server.expect("ready");
    }
    let begun = || -> BTreeSet<(String, i64)> {
        let journal = std::fs::read_to_string(folder.join("journal")).unwrap_or_default();
        let line =
            |line: &str| line.split_once(' ').map(|(job, tick)| (job.to_owned(), tick.parse().unwrap()));
        journal.lines().filter_map(line).collect()
    };
    let until = Instant::now() + Duration::from_secs(60 + u64::try_from(ticks).unwrap() / 2);
    let mut killed = 0_usize;
    while (begun().len() < ticks || is_killing()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(40 + random() % 160));
        if !is_killing() {
            continue;
        }
        let index = killed % servers.len();
        servers[index].kill();
        servers[index] = spawn();
        killed += 1;
    }
    // Those that were killed last are taken over before the next ticks.
    let last = begun();
    std::thread::sleep(TAKING_OVER);
    for server in &mut servers {
        server.go_on();
    }
    for server in &mut servers {
        server.rest();
    }
    let payments = bank.bank.payments(&bank.namespace).await.expect("payments");
    let times = |(job, tick): &(String, i64)| {
        payments.iter().find(|payment| (&payment.0, payment.1) == (job, *tick)).map_or(0, |payment| payment.2)
    };
    println!("{} ticks, {killed} kills", last.len());
    assert!(last.len() >= ticks, "only {} ticks began in time", last.len());
    last.into_iter().map(|tick| (tick.clone(), times(&tick))).collect()
}

/// As many as `JOBS_TEST_TICKS` says.
fn ticks() -> usize {
    std::env::var("JOBS_TEST_TICKS").ok().map_or(300, |ticks| ticks.parse().expect("a number"))
}

async fn each_tick_is_booked_exactly_once(bank: &TestBank) {
    let booked = booked_ticks(bank, "finish", ticks()).await;
    let wrong: Vec<_> = booked.iter().filter(|(_, times)| *times != 1).collect();
    assert!(wrong.is_empty(), "{} of {} ticks: {wrong:?}", wrong.len(), booked.len());
}

/// The control: the same job, which commits by itself.
async fn without_finish_ticks_are_booked_twice(bank: &TestBank) {
    let booked = booked_ticks(bank, "control", 150).await;
    let twice = booked.iter().filter(|(_, times)| *times > 1).count();
    println!("{twice} of {} ticks were booked more than once", booked.len());
    assert!(twice > 0, "the kills did not meet a single commit");
}

crate::on_every_database! {
    each_tick_is_booked_exactly_once;
    without_finish_ticks_are_booked_twice;
}
