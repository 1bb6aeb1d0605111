//! A tick whose server is gone is finished by another one, if the job asks for it.

use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;

use support::fleet::{Orders, Step, Worker, all_steps, first_start, wait_for, wait_until};
use support::hand::Hand;
use support::home::{Home, Kind};

const TTL: Duration = Duration::from_secs(2);

/// Every four seconds, for one and a half.
fn orders(home: &Home) -> Orders {
    Orders::serve(home)
        .set("WORKER_EVERY", "4s")
        .set("WORKER_TTL", TTL.as_millis())
        .set("WORKER_STEPS", 15)
        .set("WORKER_TAKEOVERS", 1)
}

/// The second run of the tick that began so.
fn taken_over(fleet: &[Worker], first: &Step) -> Step {
    wait_for("a takeover", || {
        all_steps(fleet, "start").into_iter().find(|run| run.tick == first.tick && run.fence != first.fence)
    })
}

pub fn a_killed_winners_tick_finishes_on_another_server_within_the_ttl_and_a_second(store: Kind) {
    let home = store.home();
    let mut fleet = orders(&home).start_fleet(3);
    let (winner, first) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    fleet[winner].kill();
    let killed = Timestamp::now();

    let second = taken_over(&fleet, &first);
    assert_ne!(second.server, first.server);
    assert_eq!(second.attempt, 2);
    assert!(second.fence > first.fence, "{first:?} then {second:?}");
    let took = second.at.since(killed);
    println!("taken over {took:?} after the kill, with a ttl of {TTL:?}");
    assert!(took <= TTL + Duration::from_secs(1), "{took:?}");
    wait_until("its end", || all_steps(&fleet, "end").iter().any(|run| run.fence == second.fence));
    let hand = Hand::on(&home);
    wait_until("its record", || hand.history().runs.iter().any(|run| run.fence == second.fence));
    let runs = hand.history().runs;
    let outcome = |fence| runs.iter().find(|run| run.fence == fence).map(|run| (run.outcome, run.attempt));
    assert_eq!(outcome(first.fence), Some((RunOutcome::Crashed, 1)));
    assert_eq!(outcome(second.fence), Some((RunOutcome::Succeeded, 2)));
    let starts = all_steps(&fleet, "start").into_iter().filter(|run| run.tick == first.tick).count();
    assert_eq!(starts, 2, "one takeover, not one per server");
}

/// The control: without `on_crash = "retry"` the tick is over.
pub fn tick_of_a_killed_winner_is_over_without_takeovers(store: Kind) {
    let home = store.home();
    let mut fleet = orders(&home).set("WORKER_TAKEOVERS", 0).start_fleet(3);
    let (winner, first) = first_start(&fleet);
    fleet[winner].kill();
    wait_until("the next tick", || all_steps(&fleet, "start").iter().any(|run| run.tick > first.tick));
    assert_eq!(all_steps(&fleet, "start").iter().filter(|run| run.tick == first.tick).count(), 1);
}

pub fn deploy_in_the_middle_of_a_run_hands_its_tick_to_the_next_server(store: Kind) {
    let home = store.home();
    let every_ten = orders(&home).set("WORKER_EVERY", "10s").set("WORKER_TTL", 3000);
    let until_signal = every_ten.clone().set("WORKER_ROLE", "serve until signal");
    let mut old = until_signal.set("WORKER_STEPS", 80).set("WORKER_SHUTDOWN_GRACE", 200).start();
    old.wait_for("run step");
    let first = old.steps().into_iter().find(|step| step.what == "start").expect("it began");
    // Only now is the new server there: it was not when the tick was due.
    let new = every_ten.set("WORKER_STEPS", 5).start();
    new.wait_for("ready");
    old.signal("-TERM");
    let stopped = Timestamp::now();
    assert!(old.exit(Duration::from_secs(5)).success());

    let fleet = [new];
    let second = taken_over(&fleet, &first);
    println!("taken over {:?} after SIGTERM", second.at.since(stopped));
    assert_eq!((second.attempt, second.tick), (2, first.tick));
    assert!(second.fence > first.fence);
    assert!(second.at.since(stopped) < Duration::from_secs(3 + 1), "within the ttl and a second");
    let runs = Hand::on(&home).history().runs;
    let record = runs.iter().find(|run| run.fence == first.fence).expect("the old server's record");
    assert_eq!(record.outcome, RunOutcome::Cancelled);
}
