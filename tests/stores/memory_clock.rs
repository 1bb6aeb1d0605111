//! A store's clock that steps back, which only the memory store lets a test do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jobs::Timestamp;
use jobs::clock::Clock;
use jobs::store::memory::MemoryStore;
use jobs::store::{Claim, ClaimReply, ForgetReply, TickClaim};
use jobs::testing::store::Subject;

use super::support::bench::{Bench, LONG, ask, claim, claim_now, claim_with};

const NOON: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

fn set_clock() -> (Arc<SetClock>, Bench) {
    let clock = Arc::new(SetClock(AtomicI64::new(NOON.as_micros())));
    let bench = Bench::of(&Subject::new(MemoryStore::new(clock.clone())));
    (clock, bench)
}

#[tokio::test]
async fn a_clock_that_steps_back_reruns_nothing() {
    let (clock, bench) = set_clock();
    let ticks = [3, 2, 1, 0].map(|back| NOON.minus(back * HOUR));
    for tick in ticks {
        let patient = TickClaim { grace: 4 * HOUR, ..ask(tick) };
        bench.finish(&claim_with("a", LONG, patient)).await;
    }

    let stepped_back = NOON.minus(HOUR / 2);
    clock.0.store(stepped_back.as_micros(), Ordering::Relaxed);
    for tick in &ticks[..3] {
        let eager = TickClaim { grace: 4 * HOUR, takeovers: 5, ..ask(*tick) };
        assert_eq!(bench.claim(&claim_with("b", LONG, eager)).await, ClaimReply::Ahead(NOON));
    }
    assert_eq!(bench.claim(&claim("b", NOON)).await, ClaimReply::Early(HOUR / 2));
    assert_eq!(bench.history().await.runs.len(), 4);

    // The operator's remedy frees what is still to come, and nothing that is over.
    bench.reset().await;
    assert_eq!(bench.claim(&claim("b", ticks[2])).await, ClaimReply::Superseded(stepped_back));
}

/// A server that has just started asks for a tick.
fn newcomer(tick: Timestamp) -> Claim {
    claim_with("new", LONG, TickClaim { known_for: Duration::ZERO, ..ask(tick) })
}

/// A wiped store and a server that starts at the tick's very instant know nothing of what came before.
#[tokio::test]
async fn a_job_is_known_only_after_the_instant_of_its_registration() {
    let (clock, bench) = set_clock();
    for _ in 0..2 {
        assert_eq!(bench.claim(&newcomer(NOON)).await, ClaimReply::Unregistered);
    }
    let next = NOON.plus(Duration::from_micros(1));
    clock.0.store(next.as_micros(), Ordering::Relaxed);
    bench.win(&newcomer(next)).await;
}

#[tokio::test]
async fn a_clock_that_steps_back_makes_no_job_unknown() {
    let (clock, bench) = set_clock();
    assert_eq!(bench.claim(&newcomer(NOON)).await, ClaimReply::Unregistered);
    let [stepped_back, later] = [HOUR, HOUR / 2].map(|back| NOON.minus(back));
    clock.0.store(stepped_back.as_micros(), Ordering::Relaxed);
    assert_eq!(bench.claim(&newcomer(stepped_back)).await, ClaimReply::Unregistered);
    clock.0.store(later.as_micros(), Ordering::Relaxed);
    bench.win(&newcomer(later)).await;
}

/// A server of the old version that was restarted late in a deploy, and is gone.
#[tokio::test]
async fn a_schedule_that_nobody_follows_any_more_gives_way_to_an_older_server() {
    let (clock, bench) = set_clock();
    bench.claim(&newcomer(NOON)).await;
    let mut replaced = Vec::new();
    for minutes in [30, 61, 90] {
        let now = NOON.plus(Duration::from_secs(minutes * 60));
        clock.0.store(now.as_micros(), Ordering::Relaxed);
        let other = TickClaim { known_for: 3 * HOUR, schedule: "other".into(), ..ask(now) };
        bench.finish(&claim_with("older", LONG, other)).await;
        replaced.push(bench.history().await.registered.expect("one of them").schedule == "other");
    }
    assert_eq!(replaced, [false, true, true]);
}

#[tokio::test]
async fn a_fence_is_not_given_twice_in_the_microsecond_of_its_forgetting() {
    let (clock, bench) = set_clock();
    let before = bench.finish(&claim_now("a", LONG)).await;
    assert!(matches!(bench.forget(Duration::ZERO).await, ForgetReply::TooRecent(_)));
    clock.0.store(NOON.as_micros() + 1, Ordering::Relaxed);
    assert_eq!(bench.forget(Duration::ZERO).await, ForgetReply::Forgotten);
    assert!(bench.win(&claim_now("a", LONG)).await.fence > before.fence);
}
