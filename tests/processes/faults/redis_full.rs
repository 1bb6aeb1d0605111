//! A Redis server without room for another write.

use jobs::history::RunOutcome;

use support::fleet::{Orders, wait_for, wait_until};
use support::hand::Hand;
use support::redis_server::RedisServer;

#[test]
fn full_redis_starts_nothing_reports_it_and_still_extends_and_releases() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]);
    let hand = Hand::on(&redis);
    let orders = Orders::serve(&redis).set("WORKER_KEYS", "import,report").set("WORKER_TTL", 1000);
    let orders = orders.set("WORKER_EVERY_import", "5s").set("WORKER_EVERY_report", "300ms");
    let server = orders.set("WORKER_STEPS_import", 30).start();
    let runs_of = |key: &str, what: &str| {
        server.steps().iter().filter(|step| step.key == key && step.what == what).count()
    };
    wait_until("a long run", || runs_of("import", "step") > 0 && runs_of("report", "end") > 0);
    hand.say::<()>("CONFIG SET maxmemory 1");
    let long = server.steps().into_iter().find(|step| step.key == "import").expect("the long run");
    server.wait_for_log("ERROR [report] skipped: the store did not decide this tick");
    let before = runs_of("report", "start");

    let health = server.wait_for("health StoreUnavailable");
    assert!(health.contains("OOM") && health.contains("give it more memory"), "{health}");
    let warning = server.wait_for_log("WARN the store is unavailable");
    assert!(warning.contains("swap failed") && warning.contains("give it more memory"), "{warning}");

    // Its ttl has passed twice before it ends.
    let record = wait_for("the long run's record", || {
        hand.history().runs.into_iter().find(|record| record.fence == long.fence)
    });
    assert_eq!(record.outcome, RunOutcome::Succeeded);
    assert_eq!(hand.lock(), None, "released");
    assert_eq!(runs_of("report", "start"), before, "nothing starts");

    hand.say::<()>("CONFIG SET maxmemory 0");
    wait_until("jobs to go on", || runs_of("report", "start") > before);
    server.wait_for_log("the store is available again");
    server.wait_for("health Ready");
}
