//! Whole servers.

use std::time::Duration;

use jobs::Timestamp;
use jobs::schedule::Schedule;

use super::{SERVERS, skews};
use support::fleet::{Orders, Worker, all_steps, field, wait_until};
use support::hand::Hand;
use support::home::Kind;

/// Real schedulers on clocks that are wrong.
struct Fleet {
    servers: i64,
    /// The time between ticks.
    gap: Duration,
    /// How many ticks have to run.
    wanted: usize,
    skew: i64,
}

const BUSY: Fleet = Fleet { servers: SERVERS, gap: Duration::from_millis(50), wanted: 60, skew: 5_000 };

fn schedule(store: Kind, Fleet { servers, gap, wanted, skew }: Fleet) {
    let home = store.home();
    let every = format!("{gap:?}");
    let orders = Orders::serve(&home).set("WORKER_EVERY", &every).set("WORKER_TTL", 1000);
    let orders = orders.set("WORKER_GRACE", 30_000).set("WORKER_STEPS", 1).set("WORKER_STEP", 1);
    let fleet: Vec<_> =
        skews(servers, skew).map(|skew| orders.clone().set("WORKER_SKEW", skew).start()).collect();
    for worker in &fleet {
        worker.wait_for("ready");
    }
    let schedule = Schedule::parse(&every, None).expect("a schedule");
    let following = |tick: &Timestamp| schedule.next_after(*tick);
    let mut ticks: Vec<_> =
        std::iter::successors(following(&Timestamp::now()), following).take(2000).collect();
    let started = || all_steps(&fleet, "start");
    wait_until("enough runs", || started().iter().filter(|run| run.tick >= ticks[0]).count() >= wanted);
    let last = started().iter().map(|run| run.tick).max().expect("a run");
    let later = ticks.split_off(ticks.partition_point(|tick| *tick <= last));
    let later: Vec<_> = later.iter().map(ToString::to_string).collect();
    let is_past = |worker: &Worker| {
        worker.log().iter().any(|line| field(line, "tick").is_some_and(|tick| later.contains(&tick)))
    };
    wait_until("every server to be past the last tick", || fleet.iter().all(is_past));

    let starts = started();
    let skipped = Hand::on(&home).history().skips;
    let mut not_run = 0;
    for tick in &ticks {
        match starts.iter().filter(|run| run.tick == *tick).count() {
            1 => continue,
            0 => not_run += 1,
            more => panic!("tick {tick} ran {more} times"),
        }
        // On a machine that stalls, a run may last into the next tick, which is then skipped for all; and a
        // tick that every server slept through is not made up for. Both are visible.
        let on_record = skipped.iter().any(|skip| skip.tick == *tick);
        assert!(
            on_record || fleet.iter().all(|worker| slept_through(worker, *tick, gap)),
            "nobody ran {tick}"
        );
    }
    let runs: Vec<_> =
        fleet.iter().map(|worker| all_steps(std::slice::from_ref(worker), "start").len()).collect();
    let once = ticks.len() - not_run;
    println!(
        "schedulers on {store:?}, ±{skew} ms: {once} ticks ran once, {not_run} not at all; runs per server {runs:?}"
    );
    let early: Vec<_> = starts.into_iter().filter(|run| run.at < run.tick).collect();
    assert!(early.is_empty(), "{early:?}");
}

/// Whether the server's log says that it was not there for a tick, or too late.
fn slept_through(worker: &Worker, tick: Timestamp, gap: Duration) -> bool {
    // A line about missed ticks names the tick after them.
    let accounts_for = |line: &String| {
        let missed = field(line, "missed").map_or(0, |missed| missed.parse().expect("a number"));
        let superseded = field(line, "outcome").as_deref() == Some("superseded");
        let mut distances = u32::from(!superseded)..=missed;
        field(line, "tick")
            .is_some_and(|named| distances.any(|gaps| (tick + gap * gaps).to_string() == named))
    };
    worker.log().iter().any(accounts_for)
}

pub fn schedulers_run_each_of_200_ticks_once_with_clocks_10_ms_off(store: Kind) {
    schedule(store, Fleet { wanted: 200, skew: 10, ..BUSY });
}

pub fn schedulers_run_each_tick_once_with_clocks_5_s_off(store: Kind) {
    schedule(store, BUSY);
}

/// Few enough, and seldom enough, for many stores at a time.
pub fn a_few_schedulers_run_each_tick_once_with_clocks_5_s_off(store: Kind) {
    schedule(store, Fleet { servers: 3, gap: Duration::from_millis(200), wanted: 20, ..BUSY });
}
