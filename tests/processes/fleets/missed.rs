//! Ticks that passed while no server, or no store, was there.

use std::time::Duration;

use jobs::Timestamp;

use support::fleet::{Orders, all_steps, wait_for, wait_until};
use support::home::{Home, Kind};

/// So short a grace that whoever starts later is too late.
fn orders(home: &Home) -> Orders {
    Orders::serve(home).set("WORKER_EVERY", "2s").set("WORKER_TTL", 1000).set("WORKER_GRACE", 50)
}

/// Servers that know the job are killed, ticks pass, and others start between two ticks. Returns what ran before the
/// next tick, and how many ticks lie between.
fn downtime(orders: &Orders) -> (Vec<Timestamp>, Timestamp) {
    let mut fleet = orders.start_fleet(2);
    wait_until("a run", || !all_steps(&fleet, "start").is_empty());
    fleet.iter_mut().for_each(support::fleet::Worker::kill);
    drop(fleet);
    std::thread::sleep(Duration::from_secs(5));
    // Away from the next tick: a start takes a moment.
    let into = Timestamp::now().as_micros().rem_euclid(2_000_000);
    std::thread::sleep(Duration::from_micros(u64::try_from(2_200_000 - into).expect("positive")));
    let missed = Timestamp::from_micros(Timestamp::now().as_micros().div_euclid(2_000_000) * 2_000_000);
    let fleet = orders.start_fleet(3);
    let ran = wait_for("the next tick", || {
        let starts = all_steps(&fleet, "start");
        starts.iter().any(|run| run.tick > missed).then_some(starts)
    });
    (ran.iter().map(|run| run.tick).filter(|tick| *tick <= missed).collect(), missed)
}

pub fn newest_missed_tick_runs_once_after_the_whole_fleet_was_down(store: Kind) {
    let home = store.home();
    let (ran, missed) = downtime(&orders(&home).set("WORKER_MISSED", "run_once"));
    assert_eq!(ran, [missed], "on one of three servers, with its own tick");
}

/// The control.
pub fn missed_ticks_do_not_run_by_default_after_the_whole_fleet_was_down(store: Kind) {
    let home = store.home();
    let (ran, _) = downtime(&orders(&home));
    assert_eq!(ran, []);
}

pub fn newest_missed_tick_runs_once_after_an_outage_of_the_store(store: Kind) {
    let mut home = store.durable_home();
    let gap = store.between_ticks(5);
    let orders = orders(&home).set("WORKER_MISSED", "run_once").set("WORKER_EVERY", format!("{gap:?}"));
    let fleet = orders.start_fleet(3);
    let first = wait_for("a run", || all_steps(&fleet, "end").into_iter().next());
    home.kill();
    // Past the next tick and its grace, and well before the one after it.
    let missed = first.tick + gap;
    std::thread::sleep((missed + Duration::from_millis(700)).since(Timestamp::now()));
    home.restart();
    wait_until("the tick after it", || all_steps(&fleet, "start").iter().any(|run| run.tick > missed));
    let late: Vec<_> = all_steps(&fleet, "start").into_iter().filter(|run| run.tick == missed).collect();
    assert_eq!(late.len(), 1, "{late:?}");
    println!("the missed tick ran {:?} late", late[0].at.since(missed));
    assert!(late[0].at.since(missed) > Duration::from_millis(600));
}
