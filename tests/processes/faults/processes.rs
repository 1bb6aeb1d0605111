//! Processes that die or stand still while they hold the lease.

use std::collections::HashSet;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;

use support::fleet::{Orders, Step, Worker, all_steps, first_start, wait_for, wait_until};
use support::hand::Hand;
use support::home::{Home, Kind};
use support::redis_server::RedisServer;

/// Every second, for ten seconds unless something happens.
fn long_runs(home: &Home) -> Orders {
    Orders::serve(home).set("WORKER_EVERY", "1s").set("WORKER_TTL", 1500).set("WORKER_STEPS", 100)
}

pub fn a_killed_winners_tick_is_over_and_the_next_after_its_ttl_runs_elsewhere(store: Kind) {
    let home = store.home();
    let mut fleet = long_runs(&home).start_fleet(3);
    let (winner, killed) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    fleet[winner].kill();

    let next = wait_for("a run after the crash", || all_steps(&fleet, "start").into_iter().nth(1));
    assert_ne!(next.server, killed.server);
    assert!(next.tick > killed.tick && next.fence > killed.fence, "{killed:?} then {next:?}");
    assert_eq!(next.attempt, 1, "a tick of its own, not a takeover");
    let history = Hand::on(&home).history();
    let record = history.runs.iter().find(|run| run.fence == killed.fence).expect("the killed run");
    assert_eq!((record.outcome, record.tick), (RunOutcome::Crashed, Some(killed.tick)));
}

/// Two servers with many jobs, so that whoever is woken too late has much to do wrong.
fn two_servers_with_many_jobs(orders: Orders) -> Vec<Worker> {
    let keys: Vec<_> = (0..8).map(|number| format!("job-{number}")).collect();
    let fleet = orders.set("WORKER_KEYS", keys.join(",")).set("WORKER_STEP", 200).start_fleet(2);
    wait_until("every job to run", || all_steps(&fleet, "start").len() >= keys.len());
    fleet
}

/// Stops a server, though not in the middle of a step: a file that it has locked would stay so.
fn stop(server: &Worker, hand: &Hand) {
    loop {
        server.signal("-STOP");
        let at_rest = |_| {
            std::thread::sleep(Duration::from_millis(10));
            hand.is_at_rest()
        };
        if (0..10).any(at_rest) {
            return;
        }
        server.signal("-CONT");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stops the server with the most runs until the other one has a later run of each of its jobs.
fn stop_past_the_leases<'a>(fleet: &'a [Worker], hand: &Hand) -> (&'a Worker, Vec<Step>, Vec<Step>) {
    let starts_of = |worker: &Worker| all_steps(std::slice::from_ref(worker), "start");
    let stopped = fleet.iter().max_by_key(|worker| starts_of(worker).len()).expect("two servers");
    stop(stopped, hand);
    std::thread::sleep(Duration::from_millis(50));
    let overtaken = starts_of(stopped);
    let successors = wait_for("a successor of each run", || {
        let starts = all_steps(fleet, "start");
        let next =
            |run: &Step| starts.iter().find(|start| start.key == run.key && start.fence > run.fence).cloned();
        overtaken.iter().map(next).collect::<Option<Vec<_>>>()
    });
    for (run, next) in overtaken.iter().zip(&successors) {
        assert!(next.tick > run.tick && next.server != run.server, "{run:?} then {next:?}");
    }
    (stopped, overtaken, successors)
}

pub fn winner_that_was_stopped_past_its_lease_takes_no_further_step(store: Kind) {
    let home = store.home();
    let hand = Hand::on(&home);
    let fleet = two_servers_with_many_jobs(long_runs(&home));
    let (stopped, overtaken, successors) = stop_past_the_leases(&fleet, &hand);

    let locks = || successors.iter().map(|run| hand.lock_of(&run.key)).collect::<Vec<_>>();
    let held = locks();
    assert!(held.iter().all(Option::is_some), "{held:?}");
    let woken = Timestamp::now();
    stopped.signal("-CONT");
    let logged = |what: &str| stopped.log().iter().filter(|line| line.contains(what)).count();
    let lost = || logged("outcome=\"lease_lost\"");
    wait_until("every lost lease", || lost() == overtaken.len());
    // Then each is released. A release that is repeated, because the store did not answer in time, does not know that it was stale.
    let stale_releases = || logged("lease had ended before it was released");
    for _ in 0..40 {
        if stale_releases() == overtaken.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(stale_releases() > 0, "no release was stale");
    assert_eq!(locks(), held, "they left the successors' locks alone");
    std::thread::sleep(Duration::from_millis(500));
    let mut late = stopped.steps();
    late.retain(|step| step.at >= woken && overtaken.iter().any(|run| run.fence == step.fence));
    println!("{} overtaken runs took {} more steps", overtaken.len(), late.len());
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(lost(), overtaken.len());
}

/// The control of the test above, and what fences are for.
pub fn winner_that_continues_past_its_lease_does_harm_wherever_its_fence_is_not_compared(store: Kind) {
    let home = store.home();
    let database = RedisServer::start();
    let orders = long_runs(&home).set("WORKER_ON_LOST", "continue").set("WORKER_WRITES", database.url());
    let fleet = two_servers_with_many_jobs(orders);
    let (stopped, overtaken, successors) = stop_past_the_leases(&fleet, &Hand::on(&home));
    wait_until("a write of every successor", || {
        let steps = all_steps(&fleet, "step");
        successors.iter().all(|run| steps.iter().any(|step| step.fence == run.fence))
    });

    let woken = Timestamp::now();
    stopped.signal("-CONT");
    let stale = wait_for("a step of every stale run", || {
        let mut stale = all_steps(std::slice::from_ref(stopped), "step");
        // The first one of each run may have been under way when the process was stopped.
        let mut under_way: HashSet<_> = overtaken.iter().map(|run| run.fence).collect();
        let is_of = |step: &Step| overtaken.iter().any(|run| run.fence == step.fence);
        stale.retain(|step| step.at >= woken && is_of(step) && !under_way.remove(&step.fence));
        (stale.len() >= 2 * overtaken.len()).then_some(stale)
    });
    let with = |what: &str| stale.iter().filter(|step| step.note.contains(what)).count();
    let (refused, spoilt) = (with("fenced refused"), with("overwrote its successor"));
    println!(
        "of {} steps after the lease was lost {refused} fenced writes were refused, and {spoilt} others spoilt the \
              successor's work",
        stale.len()
    );
    assert_eq!(refused, stale.len(), "{stale:?}");
    assert!(spoilt > 0, "{stale:?}");
}
