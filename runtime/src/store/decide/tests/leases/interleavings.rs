//! What happens between a look and its swap, and after answers that were lost or came late.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::Forgotten;
use crate::history::RunOutcome;
use crate::store::decide;
use crate::store::decide::Decision;
use crate::store::memory::MemoryStore;
use crate::store::{
    Claim, ClaimDecision, ClaimPurpose, Ending, ExtendReply, Gap, Lease, Look, ReleaseReply, Store, Swap,
    SwapReply, TickClaim,
};
use crate::testing::TestClock;
use crate::testing::store::Client;
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SCHEDULE, SHORT, ask, claim, claim_now, claim_what, claim_with,
};

use crate::store::decide::tests::{LOST, START, bench, subject_on};

fn lock(server: &str, ttl: Duration) -> Claim {
    claim_what(server, ttl, ClaimPurpose::Lock)
}

#[tokio::test(start_paused = true)]
async fn confirmed_claim_does_not_start_before_its_tick() {
    let clock = TestClock::starting_at(START);
    let bench = Bench::of(&subject_on(&clock));
    let won = claim("a", bench.tick_now().await);
    bench.win(&won).await;
    clock.step(-10_000);
    assert!(matches!(bench.claim(&won).await, ClaimDecision::Early(_)), "the clock went back");
    clock.step(10_000);
    assert!(matches!(bench.claim(&won).await, ClaimDecision::Won(_)));
}

#[tokio::test(start_paused = true)]
async fn second_break_does_not_bring_the_first_broken_lease_back() {
    let bench = bench();
    let first = bench.win(&lock("a", 100 * LONG)).await;
    bench.break_lock().await;
    bench.win(&lock("b", SHORT)).await;
    bench.break_lock().await;
    let third = bench.win(&lock("c", SHORT)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    bench.release(&third, RunOutcome::Succeeded).await;
    assert_eq!(bench.extend(&first).await, LOST);
}

#[tokio::test(start_paused = true)]
async fn broken_lease_does_not_come_back_after_its_job_was_forgotten() {
    let bench = bench();
    let day = Duration::from_secs(86_400);
    let broken = bench.win(&claim_now("a", day)).await;
    bench.break_lock().await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    let reply = bench.forget(Duration::from_secs(3600)).await;
    assert!(matches!(reply, Forgotten::TooRecent(_)), "{reply:?}");
    let reply = bench.extend(&broken).await;
    assert!(matches!(reply, ExtendReply::Lost { broken_by: Some(_) }), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn operator_touches_only_the_holder_that_was_seen() {
    let bench = bench();
    let seen = bench.win(&claim_now("a", LONG)).await;
    let seen_then = bench.look().await;
    bench.release(&seen, RunOutcome::Succeeded).await;
    tokio::time::sleep(MOMENT).await;
    bench.win(&claim_now("b", LONG)).await;
    let now = bench.look().await;
    let broken = decide::break_lock(&now, "key", &seen_then, &"operator".into(), 100);
    assert_eq!((broken.reply.len(), broken.change), (0, None), "b came after a was seen");
    let torn = Look { lock: now.lock.clone(), ..seen_then.clone() };
    assert!(torn.lock.is_some(), "the lock of b, beside the record of a");
    let broken = decide::break_lock(&now, "key", &torn, &"operator".into(), 100);
    assert_eq!((broken.reply.len(), broken.change), (0, None), "b keeps its lock");
    let cancelled = decide::cancel(&now, &seen_then, &"operator".into());
    assert_eq!(cancelled.change, None);
    let broken = decide::break_lock(&now, "key", &now, &"operator".into(), 100);
    assert_eq!(broken.reply.len(), 1, "control: the holder that was seen is broken");
}

#[tokio::test(start_paused = true)]
async fn cancelled_tick_is_not_taken_over_after_a_crash() {
    let bench = bench();
    let tick = bench.tick_now().await;
    let retrying = |server: &str| claim_with(server, SHORT, TickClaim { takeovers: 3, ..ask(tick) });
    let crashed = bench.win(&retrying("a")).await;
    bench.cancel().await;
    bench.outlive(&crashed).await;
    let verdict = bench.verdict(&retrying("b")).await;
    assert!(matches!(verdict.decision, ClaimDecision::Taken(_)), "{verdict:?}");
    assert_eq!(verdict.unfinished, None);
}

#[tokio::test(start_paused = true)]
async fn work_counts_as_done_from_the_stores_time() {
    let clock = TestClock::starting_at(START);
    let client = Client::new(MemoryStore::new(Arc::new(clock.clone())));
    let once = |server: &str| claim_what(server, LONG, ClaimPurpose::Once);
    let held = client.acquire("key", &once("a")).await.unwrap().expect("free");
    // The answer to the claim was slow, or this machine was paused: its estimate of the store's time is far behind.
    clock.step(20_000);
    let end = Ending { done_for: Some(Duration::from_secs(5)), ..Ending::of(RunOutcome::Succeeded, 100) };
    assert_eq!(held.release(&end).await.unwrap(), ReleaseReply::Released);
    let again = client.claim("key", &once("b")).await.unwrap().reply;
    assert!(matches!(again.decision, ClaimDecision::Done(_)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn extension_from_memory_after_a_pause_is_never_later_than_its_limits() {
    let clock = TestClock::starting_at(START);
    let client = Client::new(MemoryStore::new(Arc::new(clock.clone())));
    let mut held = client.acquire("key", &lock("a", LONG)).await.unwrap().expect("free");
    clock.step(30_000);
    let reply = held.extend().await.unwrap();
    assert_eq!(reply, LOST, "the lease was over before the extension");
}

#[tokio::test(start_paused = true)]
async fn changed_schedule_keeps_what_was_missed_under_the_old_one() {
    let bench = bench();
    let registered = bench.register().await;
    let tick = bench.tick_now().await;
    let deployed = TickClaim { schedule: "every 7s".into(), known_for: Duration::from_secs(60), ..ask(tick) };
    let won = bench.won(&claim_with("b", LONG, TickClaim { previous: None, ..deployed })).await;
    let [Gap { after, schedule: Some(schedule), .. }] = &won.missed[..] else { panic!("{won:?}") };
    assert_eq!((*after, schedule.as_ref()), (registered, SCHEDULE));
}

#[tokio::test(start_paused = true)]
async fn gaps_beyond_the_limit_are_merged_and_not_lost() {
    let bench = bench();
    let registered = bench.register().await;
    for _ in 0..20 {
        let [unseen, tick] = [bench.tick_now().await, bench.tick_now().await];
        let crashed = claim_with("a", SHORT, TickClaim { previous: Some(unseen), ..ask(tick) });
        let crashed = bench.win(&crashed).await;
        bench.outlive(&crashed).await;
    }
    let missed = bench.look().await.state.missed.clone();
    assert_eq!((missed.len(), missed[0].after), (16, registered));
}

#[tokio::test(start_paused = true)]
async fn late_copy_of_a_swap_is_refused() {
    let clock = TestClock::starting_at(START);
    let store = MemoryStore::new(Arc::new(clock.clone()));
    let look = store.look("key").await.unwrap();
    let Decision { reply, change: Some(change) } = decide::claim(&look, &lock("a", LONG)) else {
        panic!("the key is free")
    };
    let ClaimDecision::Won(won) = reply.decision else { panic!("the key is free") };
    let swap = Swap { expected: look.version, expected_lock: None, nonce: 1, change };
    let SwapReply::Swapped(swapped) = store.swap("key", &swap).await.unwrap() else { panic!("refused") };
    let held = Lease { fence: swapped.fence, ..won.lease };
    let reply = store.swap("key", &swap).await.unwrap();
    assert!(matches!(reply, SwapReply::Changed(_)), "while it is held");
    let client = Client::new(store.clone());
    assert_eq!(client.release("key", &held, &Ending::of(RunOutcome::Succeeded, 100)).await.unwrap().reply, {
        ReleaseReply::Released
    });
    clock.step(6_000);
    let reply = store.swap("key", &swap).await.unwrap();
    assert!(
        matches!(reply, SwapReply::Changed(_)),
        "after the claim's limit, though there is no record again"
    );
}
