//! What an operator does on one server holds for all of them.

use std::time::Duration;

use support::fleet::{Orders, Worker, all_steps, wait_until};
use support::hand::Hand;
use support::home::Kind;

fn pause(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

pub fn a_pause_on_one_server_is_seen_by_every_other_and_survives_restarts(store: Kind) {
    let home = store.home();
    let orders = Orders::serve(&home).set("WORKER_EVERY", "500ms");
    let mut fleet = orders.start_fleet(3);
    wait_until("a run", || !all_steps(&fleet, "start").is_empty());
    fleet[0].order("pause import");
    fleet[0].wait_for("pause Ok");
    pause(1);
    let ran = all_steps(&fleet, "start").len();
    drop(fleet);
    let mut fleet = orders.start_fleet(2);
    pause(2);
    assert_eq!(all_steps(&fleet, "start").len(), 0, "{ran} runs before");
    assert!(Hand::on(&home).history().skips.len() >= 3, "and the skips are on record");
    fleet[1].order("resume import");
    fleet[1].wait_for("resume Ok");
    wait_until("a run", || !all_steps(&fleet, "start").is_empty());
}

pub fn manual_runs_race_with_ticks_and_never_overlap(store: Kind) {
    let home = store.home();
    let orders =
        Orders::serve(&home).set("WORKER_EVERY", "300ms").set("WORKER_STEPS", 2).set("WORKER_STEP", 60);
    let mut fleet = orders.start_fleet(4);
    let asked = 30;
    for round in 0..asked {
        for server in &mut fleet {
            server.order("run_now import");
        }
        std::thread::sleep(Duration::from_millis([250, 410, 570][round % 3]));
    }
    let answers = |fleet: &[Worker]| {
        let told = fleet.iter().flat_map(Worker::told);
        told.filter(|line| line.starts_with("run_now ")).collect::<Vec<_>>()
    };
    wait_until("every answer", || answers(&fleet).len() == asked * fleet.len());
    let answers = answers(&fleet);
    let (ran, held): (Vec<_>, Vec<_>) = answers.iter().partition(|line| line.contains("ran succeeded"));
    assert!(held.iter().all(|line| line.contains("Held")), "{held:?}");
    let (starts, ends) = (all_steps(&fleet, "start"), all_steps(&fleet, "end"));
    let by_hand = starts.iter().filter(|run| run.tick.as_micros() == 0).count();
    println!("{} runs, {by_hand} of them by hand; {} times held", starts.len(), held.len());
    assert_eq!(by_hand, ran.len());
    assert!(by_hand >= 5 && starts.len() - by_hand >= 5, "both kinds ran");
    for pair in starts.windows(2) {
        let end = ends.iter().find(|end| end.fence == pair[0].fence).expect("it ended");
        assert!(end.at <= pair[1].at && pair[0].fence < pair[1].fence, "{pair:?}");
    }
    let mut ticks: Vec<_> = starts.iter().map(|run| run.tick).filter(|tick| tick.as_micros() > 0).collect();
    ticks.dedup();
    assert_eq!(ticks.len(), starts.len() - by_hand, "a tick ran twice");
}

pub fn manual_run_requested_on_a_server_without_the_job_runs_on_one_with_it(store: Kind) {
    let home = store.home();
    let has_it = Orders::serve(&home).set("WORKER_KEYS", "report").set("WORKER_EVERY", "1h").start();
    let mut has_not = Orders::serve(&home).set("WORKER_KEYS", "other").set("WORKER_EVERY", "1h").start();
    let server = has_it.wait_for("ready");
    has_not.wait_for("ready");
    wait_until("its announcement", || Hand::on(&home).servers().contains(&server));
    has_not.order("run_now report");
    let answer = has_not.wait_for("run_now");
    assert!(answer.starts_with(&format!("ran succeeded {server} ")), "{answer}");
    assert_eq!(has_it.steps().iter().filter(|step| step.what == "start").count(), 1);
    has_not.order("run_now reprot");
    has_not.wait_for("run_now Err");
    assert!(has_not.told().iter().any(|line| line.contains("NoSuchJob")), "a typing mistake is told");
}
