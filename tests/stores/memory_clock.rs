//! A store's clock that steps back, which only the memory store lets a test do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jobs::Timestamp;
use jobs::clock::Clock;
use jobs::store::memory::MemoryStore;
use jobs::store::{ClaimReply, TickClaim};

use super::support::bench::{Bench, LONG, ask, claim, claim_with};

const NOON: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_reruns_nothing() {
    let clock = Arc::new(SetClock(AtomicI64::new(NOON.as_micros())));
    let store = MemoryStore::new(clock.clone());
    let bench = Bench { store: Arc::new(store.clone()), tamper: Arc::new(store), key: "import".to_owned() };
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
