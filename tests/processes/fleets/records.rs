//! What is on record when everything but the store is gone.

use std::time::Duration;

use jobs::history::RunOutcome;

use support::fleet::{Orders, Worker, first_start, wait_until};
use support::hand::Hand;
use support::home::Kind;

pub fn a_run_outlives_all_servers_on_record_as_unfinished_and_then_as_crashed(store: Kind) {
    let home = store.home();
    let hand = Hand::on(&home);
    let orders = Orders::serve(&home).set("WORKER_TTL", 2000).set("WORKER_STEPS", 100);
    let mut fleet = orders.start_fleet(3);
    let (_, run) = first_start(&fleet);
    fleet.iter_mut().for_each(Worker::kill);

    let history = hand.history();
    let current = history.current.expect("the run goes on, as far as the store knows");
    assert_eq!((current.tick, current.fence, &current.server), (Some(run.tick), run.fence, &run.server));
    assert!(history.runs.iter().all(|record| record.fence != run.fence));

    wait_until("the end of the lease", || hand.history().current.is_none());
    let history = hand.history();
    let record = history.runs.first().expect("a record that nobody wrote");
    assert_eq!((record.outcome, record.fence), (RunOutcome::Crashed, run.fence));
    assert_eq!(history.stats.failures, 1);

    let next = orders.set("WORKER_STEPS", 0).start();
    next.wait_for("run end");
    std::thread::sleep(Duration::from_millis(100));
    let written = hand.history().runs.into_iter().find(|record| record.fence == run.fence);
    assert_eq!(written.as_ref(), Some(record), "and the next claim wrote the same");
}
