//! Other programs that use the widely known `SET lock:<key> … NX PX …` on the same key.

use jobs::history::{RunOutcome, Skip};

use support::fleet::{Orders, wait_for, wait_until};
use support::hand::Hand;
use support::redis_server::RedisServer;

#[test]
fn a_plain_clients_lock_and_our_run_exclude_each_other() {
    let redis = RedisServer::start();
    let hand = Hand::on(&redis);
    let plain_lock = |millis: u32| -> bool {
        hand.say::<Option<String>>(&format!("SET lock:import plain NX PX {millis}")).is_some()
    };
    assert!(plain_lock(60_000));
    let server = Orders::serve(&redis).set("WORKER_TTL", 5000).set("WORKER_STEPS", 5).start();
    let skip = wait_for("a skipped tick", || hand.history().skips.into_iter().next());
    assert_eq!(skip.reason, Skip::Held);
    server.wait_for_log("[import] another program holds the lock");
    assert!(server.steps().is_empty(), "{:?}", server.steps());
    assert_eq!(hand.lock().as_deref(), Some("plain"), "its lock is not ours to touch");

    hand.say::<()>("DEL lock:import");
    server.wait_for("run step");
    assert!(!plain_lock(1), "our run holds it");
    wait_until("the lock to be free", || plain_lock(60_000));
    assert_eq!(hand.history().runs[0].outcome, RunOutcome::Succeeded);
}
