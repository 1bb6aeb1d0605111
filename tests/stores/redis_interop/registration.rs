//! Which schedule of a job counts in Redis when servers differ.

use std::time::Duration;

use jobs::Timestamp;
use jobs::store::TickClaim;
use redis::aio::MultiplexedConnection;

use super::{beside, tamper};
use support::bench::{Bench, LONG, SCHEDULE, ask, claim_with};
use support::redis_server::RedisServer;

const OTHER: &str = "30 * * * * UTC";
const MINUTE: Duration = Duration::from_secs(60);

/// Wins and finishes a tick of this instant with a schedule, and returns the one that is registered then, and since
/// when nobody has won with it.
async fn run(bench: &Bench, schedule: &str, known_for: Duration) -> (String, Timestamp) {
    let tick = bench.tick_now().await;
    let ask = TickClaim { known_for, schedule: schedule.into(), ..ask(tick) };
    bench.finish(&claim_with("a", LONG, ask)).await;
    let registered = bench.history().await.registered.expect("one of them");
    (registered.schedule.to_string(), registered.used)
}

/// Nobody has won a tick with the registered schedule for so long.
async fn silent_for(bench: &Bench, plain: &mut MultiplexedConnection, silence: Duration) -> Timestamp {
    let used = bench.now().await - silence;
    tamper(plain, |state| {
        assert!(state["registered"]["used"].is_i64(), "it has been there: {state}");
        state["registered"]["used"] = used.as_micros().into();
    })
    .await;
    used
}

#[tokio::test]
async fn schedule_of_an_older_server_applies_after_an_hour_of_silence() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    assert_eq!(run(&bench, SCHEDULE, MINUTE).await.0, SCHEDULE);

    let used = silent_for(&bench, &mut plain, 30 * MINUTE).await;
    assert_eq!(
        run(&bench, OTHER, 300 * MINUTE).await,
        (SCHEDULE.to_owned(), used),
        "half an hour is not enough"
    );

    silent_for(&bench, &mut plain, 120 * MINUTE).await;
    let before = bench.now().await;
    let (registered, used) = run(&bench, OTHER, 300 * MINUTE).await;
    assert_eq!(registered, OTHER);
    assert!(used >= before, "and is followed from now on");
}

#[tokio::test]
async fn a_tick_that_is_won_with_a_schedule_ends_its_silence() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    run(&bench, SCHEDULE, MINUTE).await;
    let long_ago = silent_for(&bench, &mut plain, 120 * MINUTE).await;
    let (registered, used) = run(&bench, SCHEDULE, MINUTE).await;
    assert!(registered == SCHEDULE && used > long_ago + 119 * MINUTE);
    assert_eq!(run(&bench, OTHER, 300 * MINUTE).await.0, SCHEDULE);
}
