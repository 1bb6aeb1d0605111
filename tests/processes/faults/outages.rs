//! A server that restarts, is away, or loses its connections, while jobs run.

use std::time::Duration;

use jobs::Timestamp;
use jobs::events::Taken;
use jobs::history::RunOutcome;
use jobs::schedule::Schedule;
use jobs::store::ClaimDecision;

use support::fleet::{Orders, Step, Worker, all_steps, first_start, wait_for, wait_until};
use support::hand::Hand;
use support::home::{Home, Kind, Whereabouts};

/// The run lasts for about three more seconds, over several extensions.
pub fn long_run(place: &impl Whereabouts) -> (Vec<Worker>, Step) {
    let orders =
        Orders::serve(place).set("WORKER_EVERY", "5s").set("WORKER_TTL", 2500).set("WORKER_STEPS", 35);
    let fleet = orders.start_fleet(3);
    let (winner, run) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    (fleet, run)
}

/// The tick ran once, to its end, and everybody knows.
pub fn ran_once(hand: &Hand, fleet: &[Worker], run: &Step) {
    let record = wait_for("the run's record", || {
        hand.history().runs.into_iter().find(|record| record.fence == run.fence)
    });
    assert_eq!((record.outcome, record.tick), (RunOutcome::Succeeded, Some(run.tick)));
    let starts = all_steps(fleet, "start");
    assert_eq!(starts.iter().filter(|start| start.tick == run.tick).count(), 1, "{starts:?}");
    let late = hand.claim(run.tick);
    let taken = matches!(
        late,
        ClaimDecision::Taken(Taken::Started { finished: true, .. }) | ClaimDecision::Superseded(_)
    );
    assert!(taken, "{late:?}");
}

/// The server restarts in the middle of a run, and may have forgotten everything.
pub fn a_restart_mid_run(mut home: Home, forgets: bool) {
    let hand = Hand::on(&home);
    let (fleet, run) = long_run(&home);
    let token = hand.lock().expect("the run's lock");
    home.restart();
    assert_eq!(hand.mark().is_none(), forgets, "what the restart left");
    wait_until("the lock to be back", || hand.lock().as_ref() == Some(&token));
    assert_eq!(hand.mark(), Some(run.tick.as_micros()));
    ran_once(&hand, &fleet, &run);
    let healed = fleet.iter().flat_map(Worker::log).any(|line| line.contains("it was restored"));
    assert_eq!(healed, forgets);
}

pub fn a_run_keeps_its_lock_over_a_restart_of_a_durable_server(store: Kind) {
    a_restart_mid_run(store.durable_home(), false);
}

/// The server goes away before a tick and comes back three seconds later.
fn an_outage_across_a_tick(store: Kind, outage: impl FnOnce(&mut Home)) {
    const GRACE: Duration = Duration::from_secs(10);
    let mut home = store.durable_home();
    let hand = Hand::on(&home);
    let grace = GRACE.as_millis();
    let every = format!("{:?}", store.between_ticks(5));
    let orders =
        Orders::serve(&home).set("WORKER_EVERY", &every).set("WORKER_TTL", 3000).set("WORKER_GRACE", grace);
    let fleet = orders.start_fleet(3);
    let schedule = Schedule::parse(&every, None).unwrap();
    let soon = Timestamp::now() + Duration::from_millis(300);
    let tick = schedule.next_after(soon).unwrap();
    std::thread::sleep((tick - Duration::from_millis(300)).since(Timestamp::now()));
    outage(&mut home);
    let back = Timestamp::now();
    assert!(back.since(tick) > Duration::from_secs(2), "the outage was across the tick");

    let run =
        wait_for("the tick", || all_steps(&fleet, "start").into_iter().find(|start| start.tick == tick));
    assert!(run.at.since(tick) <= GRACE, "{run:?}");
    println!("the tick ran {:?} after the server was back", run.at.since(back));
    ran_once(&hand, &fleet, &run);
}

pub fn tick_during_an_outage_runs_once_when_the_server_is_back(store: Kind) {
    an_outage_across_a_tick(store, |home| {
        home.kill();
        std::thread::sleep(Duration::from_secs(3));
        home.restart();
    });
}

pub fn tick_while_the_store_is_stopped_runs_once_when_it_continues(store: Kind) {
    an_outage_across_a_tick(store, |home| {
        let _stopped = Hand::on(home).stop_server();
        std::thread::sleep(Duration::from_secs(3));
    });
}

pub fn a_run_keeps_its_lease_when_all_connections_are_cut(store: Kind) {
    let home = store.durable_home();
    let hand = Hand::on(&home);
    let (fleet, run) = long_run(&home);
    let token = hand.lock();
    for _ in 0..3 {
        hand.cut_connections();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(hand.lock(), token);
    }
    ran_once(&hand, &fleet, &run);
}
