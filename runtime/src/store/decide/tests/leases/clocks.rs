//! A store's clock that is set back, or has not moved.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use crate::fleet::Forgotten;
use crate::store::{Claim, ClaimDecision, TickClaim};
use crate::testing::TestClock;
use crate::testing::store::bench::{Bench, LONG, ask, claim, claim_now, claim_with};

use crate::store::decide::tests::{START as NOON, subject_on};

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MILLIS: i64 = 3_600_000;

fn set_clock() -> (TestClock, Bench) {
    let clock = TestClock::starting_at(NOON);
    let bench = Bench::of(&subject_on(&clock));
    (clock, bench)
}

#[tokio::test(start_paused = true)]
async fn clock_that_steps_back_reruns_nothing() {
    let (clock, bench) = set_clock();
    let ticks = [3, 2, 1, 0].map(|back| NOON - (back * HOUR));
    for tick in ticks {
        let patient = TickClaim { grace: 4 * HOUR, ..ask(tick) };
        bench.finish(&claim_with("a", LONG, patient)).await;
    }

    let stepped_back = NOON - (HOUR / 2);
    clock.step(-HOUR_MILLIS / 2);
    for tick in &ticks[..3] {
        let eager = TickClaim { grace: 4 * HOUR, takeovers: 5, ..ask(*tick) };
        assert_eq!(bench.claim(&claim_with("b", LONG, eager)).await, ClaimDecision::Ahead(NOON));
    }
    assert_eq!(bench.claim(&claim("b", NOON)).await, ClaimDecision::Early(HOUR / 2));
    assert_eq!(bench.history().await.runs.len(), 4);

    // The operator's remedy frees what is still to come, and nothing that is over.
    bench.reset().await;
    assert_eq!(bench.claim(&claim("b", ticks[2])).await, ClaimDecision::Superseded(stepped_back));
}

/// A server that has just started asks for a tick.
fn newcomer(tick: Timestamp) -> Claim {
    claim_with("new", LONG, TickClaim { known_for: Duration::ZERO, ..ask(tick) })
}

/// A wiped store and a server that starts at the tick's very instant know nothing of what came before.
#[tokio::test(start_paused = true)]
async fn job_is_known_only_after_the_instant_of_its_registration() {
    let (clock, bench) = set_clock();
    for _ in 0..2 {
        assert_eq!(bench.claim(&newcomer(NOON)).await, ClaimDecision::Unregistered);
    }
    let next = NOON + Duration::from_millis(1);
    clock.step(1);
    bench.win(&newcomer(next)).await;
}

#[tokio::test(start_paused = true)]
async fn clock_that_steps_back_makes_no_job_unknown() {
    let (clock, bench) = set_clock();
    assert_eq!(bench.claim(&newcomer(NOON)).await, ClaimDecision::Unregistered);
    let [stepped_back, later] = [HOUR, HOUR / 2].map(|back| NOON - back);
    clock.step(-HOUR_MILLIS);
    assert_eq!(bench.claim(&newcomer(stepped_back)).await, ClaimDecision::Unregistered);
    clock.step(HOUR_MILLIS / 2);
    bench.win(&newcomer(later)).await;
}

/// A server of the old version that was restarted late in a deploy, and is gone.
#[tokio::test(start_paused = true)]
async fn schedule_that_no_server_follows_any_more_gives_way_to_an_older_server() {
    let (_clock, bench) = set_clock();
    bench.claim(&newcomer(NOON)).await;
    let mut replaced = Vec::new();
    for minutes in [30, 61, 90] {
        let now = NOON + Duration::from_secs(minutes * 60);
        tokio::time::sleep(now.since(bench.now().await)).await;
        let other = TickClaim { known_for: 3 * HOUR, schedule: "other".into(), ..ask(now) };
        bench.finish(&claim_with("older", LONG, other)).await;
        replaced.push(bench.history().await.registered.expect("one of them").schedule.as_ref() == "other");
    }
    assert_eq!(replaced, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn fence_is_not_given_twice_in_the_microsecond_of_its_forgetting() {
    let (clock, bench) = set_clock();
    let before = bench.finish(&claim_now("a", LONG)).await;
    assert!(matches!(bench.forget(Duration::ZERO).await, Forgotten::TooRecent(_)));
    clock.step(1);
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Yes);
    assert!(bench.win(&claim_now("a", LONG)).await.fence > before.fence);
}
