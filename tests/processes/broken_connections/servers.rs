//! Whole servers: one whose connection breaks, one whose connection does not, and a job of both.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobs::history::RunOutcome;
use jobs::store::ClaimDecision;
use jobs::{Job, Jobs, Run, RunNow, Timestamp};
use tokio::task::JoinSet;

use super::site::{Kind, Site};
use support::bench::{LONG, claim_now};
use support::proxy::{Fault, Proxy};

const KEY: &str = "import-products";
const GAP: Duration = Duration::from_millis(200);
const TTL: Duration = Duration::from_secs(1);
/// How much later a busy machine may be.
const SLACK: Duration = Duration::from_secs(5);

/// An extension, a release, the looks and swaps of the next claims; then, after a reset, the set-up of the next connection.
fn positions(fault: Fault) -> Vec<Vec<(Fault, usize)>> {
    let running = (1..=6).map(|position| vec![(fault, position)]);
    let setting_up = (2..=4).map(|position| vec![(Fault::ResetBeforeAnswer, 1), (fault, position)]);
    running.chain(setting_up).collect()
}

/// What ran, in the order of its start.
type Log = Arc<Mutex<Vec<Entry>>>;

#[derive(Debug)]
struct Entry {
    broken: bool,
    tick: Option<Timestamp>,
    fence: i64,
    began: Instant,
    ended: Option<Instant>,
}

/// Notes the end of a run, also of one that is cancelled.
struct End(Log, i64);

impl Drop for End {
    fn drop(&mut self) {
        let mut log = self.0.lock().unwrap();
        let entry = log.iter_mut().find(|entry| entry.fence == self.1);
        entry.expect("it began").ended = Some(Instant::now());
    }
}

async fn work(run: Run, log: Log, broken: bool) {
    let began = Instant::now();
    let entry = Entry { broken, tick: run.tick(), fence: run.fence(), began, ended: None };
    log.lock().unwrap().push(entry);
    let _end = End(log, run.fence());
    // Every third run lasts until after its first extension.
    let gap = i64::try_from(GAP.as_micros()).expect("small");
    let number = run.tick().map_or(0, Timestamp::as_micros) / gap;
    let lasts = if number % 3 == 0 { GAP * 5 / 2 } else { GAP / 10 };
    tokio::time::sleep(lasts).await;
}

/// No tick ran twice, no two runs were there at once, and fences grew.
fn judge(log: &[Entry]) -> Result<(), String> {
    let ticks: BTreeSet<_> = log.iter().map(|entry| entry.tick).collect();
    if ticks.len() < log.len() {
        return Err(format!("a tick ran twice: {log:#?}"));
    }
    for pair in log.windows(2) {
        let ended = pair[0].ended.expect("its server is down");
        if ended > pair[1].began || pair[0].fence >= pair[1].fence {
            return Err(format!("two at once, or a fence that did not grow: {pair:#?}"));
        }
    }
    Ok(())
}

async fn start(site: &Site, port: u16, log: &Log, broken: bool) -> Jobs {
    let log = Arc::clone(log);
    let job = Job::builder(KEY).every("200ms").ttl(TTL);
    let job = job.run(move |run| work(run, Arc::clone(&log), broken)).build().unwrap();
    let builder = jobs::builder().without_annotated().url(site.url(port)).namespace(&site.namespace);
    builder.job(job).start_all().await.expect("the store answers")
}

/// Waits for a run that began after this, and says how long after.
async fn next_start(log: &Log, after: Instant, on_broken: bool, within: Duration) -> Option<Duration> {
    loop {
        let found = log.lock().unwrap().iter().find_map(|entry| {
            let counts = entry.began > after && (entry.broken || !on_broken);
            counts.then(|| entry.began - after)
        });
        if found.is_some() || after.elapsed() > within {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Strikes at the first turn from now, then at the second, and so on.
async fn endure(kind: Kind, fault: Fault) {
    let site = Site::new(kind).await;
    let around = site.around();
    // The other server is a little farther away, so that the one with the broken connection wins, too.
    let other = Proxy::slow(site.port(), Duration::from_millis(4)).await;
    let log = Log::default();
    let broken = start(&site, site.proxy.port(), &log, true).await;
    let whole = start(&site, other.port(), &log, false).await;
    let mut longest = Duration::ZERO;
    let positions = positions(fault);
    for strike in &positions {
        let ready = next_start(&log, Instant::now(), true, LONG).await;
        assert!(ready.is_some(), "{fault:?}: the server did not recover before {strike:?}");
        site.proxy.strike(strike);
        let struck = loop {
            if let Some(struck) = site.proxy.struck() {
                break struck;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let next = next_start(&log, struck, false, TTL + SLACK).await;
        let next = next.unwrap_or_else(|| panic!("{strike:?}: nothing ran for {:?}", TTL + SLACK));
        longest = longest.max(next);
    }
    site.proxy.settle().await;
    broken.shutdown().await;
    whole.shutdown().await;

    let log = std::mem::take(&mut *log.lock().unwrap());
    judge(&log).unwrap_or_else(|wrong| panic!("{fault:?}: {wrong}"));
    let by_broken = log.iter().filter(|entry| entry.broken).count();
    println!(
        "{kind:?}, {fault:?}: {} runs, {by_broken} over the broken connection, {} \
         connections; at most {longest:?} without a start",
        log.len(),
        site.proxy.connections()
    );
    assert!(by_broken >= positions.len(), "{fault:?}: hardly a run over the broken connection");
    let free = around.claim(KEY, &claim_now("last", LONG)).await.expect("around").reply.decision;
    assert!(matches!(free, ClaimDecision::Won(_)), "{fault:?}: the key is not free: {free:?}");
}

pub async fn two_servers_survive_every_fault_at_every_position(kind: Kind) {
    let mut faults: JoinSet<_> = Fault::ALL.into_iter().map(|fault| endure(kind, fault)).collect();
    while let Some(endured) = faults.join_next().await {
        endured.expect("every promise is kept");
    }
}

/// A reset at the first extension, and silence from the next connection on: there is no time to wait for long.
pub async fn a_set_up_that_falls_silent_costs_no_run_its_lease(kind: Kind) {
    let site = Site::new(kind).await;
    let job = Job::builder(KEY).ttl(2 * TTL).run(|_| tokio::time::sleep(3 * TTL)).build().unwrap();
    let builder = jobs::builder().without_annotated().url(site.url(site.proxy.port()));
    let jobs = builder.namespace(&site.namespace).job(job).start_all().await.expect("the store answers");
    for silence in [Fault::LostRequest, Fault::LostAnswer, Fault::StuckAnswer] {
        let asked = Instant::now();
        let strike = async {
            tokio::time::sleep(TTL / 2).await; // it has begun, and was not extended yet
            site.proxy.strike(&[(Fault::ResetBeforeAnswer, 1), (silence, 2)]);
        };
        let (ran, ()) = tokio::join!(jobs.run_now(KEY), strike);
        let RunNow::Ran(record) = ran.expect("the store answers") else { panic!("it did not run") };
        assert_eq!(record.outcome, RunOutcome::Succeeded, "{silence:?}, after {:?}", asked.elapsed());
        assert!(site.proxy.struck().is_some(), "{silence:?} did not happen");
    }
    jobs.shutdown().await;
}

/// The control: two servers that share no lock do what [`judge`] is there to notice.
pub async fn two_servers_that_share_no_lock_run_ticks_twice(kind: Kind) {
    let (here, there, log) = (Site::new(kind).await, Site::new(kind).await, Log::default());
    let first = start(&here, here.port(), &log, false).await;
    let second = start(&there, there.port(), &log, true).await;
    let both = Instant::now();
    assert!(next_start(&log, both, true, LONG).await.is_some(), "the second server runs");
    assert!(next_start(&log, both + 3 * GAP, false, LONG).await.is_some(), "and several ticks pass");
    first.shutdown().await;
    second.shutdown().await;
    let wrong = judge(&log.lock().unwrap()).expect_err("nothing keeps them apart");
    assert!(wrong.starts_with("a tick ran twice"), "{wrong}");
}
