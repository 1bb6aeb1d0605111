//! On a paused clock: how often connections are opened to a slot that breaks, and what callers notice of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;

mod hedging;

const MILLISECOND: Duration = Duration::from_millis(1);

/// A slot that can be cut, and remembers when a connection was opened.
#[derive(Clone, Default)]
struct Wire {
    cut: Arc<AtomicBool>,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

impl Connect for Wire {
    type Connection = Self;
    type Error = &'static str;

    async fn connect(self) -> Result<Self, Self::Error> {
        self.attempts.lock().unwrap().push(Instant::now());
        if self.cut.load(Ordering::SeqCst) { Err("refused") } else { Ok(self) }
    }

    fn abandoned() -> Self::Error {
        "abandoned"
    }

    fn fault(_: &Self::Error) -> ConnectionFault {
        ConnectionFault::Broken
    }
}

impl Wire {
    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    fn attempts(&self) -> usize {
        self.attempts.lock().unwrap().len()
    }

    fn last_attempt(&self) -> Instant {
        *self.attempts.lock().unwrap().last().expect("an attempt")
    }
}

async fn ask(shared: &SharedConnection<Wire>, wire: &Wire) -> Result<(), &'static str> {
    let talk =
        |wire: Wire| async move { if wire.cut.load(Ordering::SeqCst) { Err("broken") } else { Ok(()) } };
    shared.exchange(wire, talk).await
}

/// So many callers who ask again as soon as they have an answer, for so long.
async fn besiege(shared: &Arc<SharedConnection<Wire>>, wire: &Wire, callers: usize, lasts: Duration) {
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (shared, wire) = (shared.clone(), wire.clone());
            tokio::spawn(async move {
                loop {
                    let _cut = ask(&shared, &wire).await;
                    tokio::time::sleep(MILLISECOND).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(lasts).await;
    callers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_on_a_cut_line_make_for_a_few_attempts_a_second() {
    let (shared, wire) = (Arc::new(SharedConnection::new()), Wire::default());
    wire.cut(true);
    besiege(&shared, &wire, 1000, Duration::from_secs(10)).await;
    assert!((10..=30).contains(&wire.attempts()), "{} attempts in 10 s", wire.attempts());

    // The callers did ask that often: without pauses each round of theirs was an attempt.
    let control = Wire::default();
    control.cut(true);
    for _ in 0..1000 {
        let _refused = ask(&SharedConnection::new(), &control).await;
    }
    assert_eq!(control.attempts(), 1000);
}

/// Callers that share an exchange wait for different times.
#[tokio::test(start_paused = true)]
#[cfg(feature = "redis")]
async fn caller_that_waits_in_vain_beside_others_drops_the_connection() {
    for (answered, disarmed, attempts) in [(false, false, 2), (true, false, 1), (false, true, 1)] {
        let (shared, wire) = (SharedConnection::new(), Wire::default());
        assert!(shared.guard().is_none(), "no connection");
        let _opening = shared.opening(&wire).await;
        assert!(shared.guard().is_none(), "not open yet");
        ask(&shared, &wire).await.expect("the slot is whole");
        let guard = shared.guard().expect("a connection");
        if answered {
            ask(&shared, &wire).await.expect("the slot is whole");
        }
        if disarmed {
            guard.disarm();
        } else {
            drop(guard);
        }
        ask(&shared, &wire).await.expect("the slot is whole");
        assert_eq!(wire.attempts(), attempts, "answered {answered}, disarmed {disarmed}");
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_servers_that_lose_their_connections_together_do_not_come_back_together() {
    let mut fleet: Vec<_> = (0..50).map(|_| (SharedConnection::new(), Wire::default())).collect();
    let spread = |fleet: &[(SharedConnection<Wire>, Wire)]| {
        let attempts = || fleet.iter().map(|(_, wire)| wire.last_attempt());
        attempts().max().unwrap() - attempts().min().unwrap()
    };
    let began = Instant::now();
    for (shared, wire) in &fleet {
        ask(shared, wire).await.expect("the slot is whole");
    }
    assert_eq!((spread(&fleet), began.elapsed()), (Duration::ZERO, Duration::ZERO), "nothing was lost yet");
    tokio::time::sleep(Duration::from_secs(5)).await;
    for (shared, wire) in &fleet {
        wire.cut(true);
        ask(shared, wire).await.expect_err("the slot is cut");
        wire.cut(false);
    }
    let back: Vec<_> = fleet
        .drain(..)
        .map(|(shared, wire)| {
            tokio::spawn(async move {
                ask(&shared, &wire).await.expect("the slot is whole again");
                (shared, wire)
            })
        })
        .collect();
    for server in back {
        fleet.push(server.await.unwrap());
    }
    let spread = spread(&fleet);
    assert!(spread > 50 * MILLISECOND && spread <= 100 * MILLISECOND, "{spread:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_long_outage_the_next_caller_waits_for_less_than_a_second() {
    let (shared, wire) = (Arc::new(SharedConnection::new()), Wire::default());
    wire.cut(true);
    besiege(&shared, &wire, 10, Duration::from_secs(60)).await;
    wire.cut(false);
    let back = Instant::now();
    ask(&shared, &wire).await.expect("the slot is whole again");
    assert!(back.elapsed() < 800 * MILLISECOND, "{:?}", back.elapsed());
    let answered = Instant::now();
    ask(&shared, &wire).await.expect("it stays so");
    assert_eq!(answered.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_with_little_time_gets_its_error_in_time_and_finds_the_line_whole_at_the_second_try() {
    let request = 167 * MILLISECOND; // a ttl of one second
    for outage in (100..2000).step_by(50).map(Duration::from_millis) {
        let (shared, wire) = (SharedConnection::new(), Wire::default());
        wire.cut(true);
        let (began, mut healed) = (Instant::now(), None);
        loop {
            let asked = Instant::now();
            if began.elapsed() >= outage && healed.is_none() {
                wire.cut(false);
                healed = Some(asked);
            }
            if timeout(request, ask(&shared, &wire)).await == Ok(Ok(())) {
                break;
            }
            assert!(asked.elapsed() <= request, "an error in time, not after {:?}", asked.elapsed());
            tokio::time::sleep(50 * MILLISECOND).await;
        }
        let late = healed.expect("healed").elapsed();
        assert!(late <= 2 * request + 50 * MILLISECOND, "{late:?} after an outage of {outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_without_time_do_not_bring_the_attempts_back() {
    let (shared, wire) = (SharedConnection::new(), Wire::default());
    wire.cut(true);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        let _in_vain = timeout(MILLISECOND, ask(&shared, &wire)).await;
    }
    assert!(wire.attempts() <= 105, "{} attempts in 10 s", wire.attempts());
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_sits_out_a_pause_profits_from_one_who_cut_it_short() {
    let (shared, wire) = (Arc::new(SharedConnection::new()), Wire::default());
    wire.cut(true);
    besiege(&shared, &wire, 1, Duration::from_secs(60)).await;
    // At the beginning of a pause of at least 400 ms.
    ask(&shared, &wire).await.expect_err("the slot is cut");
    wire.cut(false);
    let (began, patient) = (Instant::now(), shared.clone());
    let patient = tokio::spawn({
        let wire = wire.clone();
        async move {
            ask(&patient, &wire).await.expect("the slot is whole");
            began.elapsed()
        }
    });
    timeout(150 * MILLISECOND, ask(&shared, &wire)).await.expect_err("the pause is longer");
    ask(&shared, &wire).await.expect("the slot is whole");
    assert_eq!(patient.await.unwrap(), 150 * MILLISECOND);
}
