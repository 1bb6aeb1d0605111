//! Registration: since when a job is known, and by which schedule. Nothing was missed before.

use std::time::Duration;

use crate::Timestamp;
use crate::history::RunOutcome;
use crate::schedule::Missed;
use crate::store::{Claim, ClaimDecision, Gap, RegisteredSchedule, TickClaim};

use crate::store::decide::tests::{bench, subject};
use crate::testing::store::bench::{
    Bench, DAY, LONG, MOMENT, SCHEDULE, SHORT, ask, claim, claim_now, claim_with,
};

const OTHER: &str = "30 * * * * Europe/Berlin";

/// A server that has just started asks for a tick.
fn newcomer(server: &str, schedule: &str, tick: Timestamp) -> Claim {
    let known_for = Duration::ZERO;
    claim_with(server, LONG, TickClaim { known_for, schedule: schedule.into(), ..ask(tick) })
}

/// A server that has been there for long asks for a tick.
fn veteran(server: &str, schedule: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { schedule: schedule.into(), ..ask(tick) })
}

fn registered(schedule: &str, at: Timestamp, server: &str, known_for: Duration) -> RegisteredSchedule {
    let (schedule, server) = (schedule.to_owned(), server.to_owned());
    RegisteredSchedule {
        schedule: schedule.into(),
        at,
        server: server.into(),
        begun: at - known_for,
        used: at,
        runs_missed_since: None,
    }
}

#[tokio::test(start_paused = true)]
async fn tick_before_the_job_was_known_is_not_run() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let eager = TickClaim { takeovers: 5, missed: Missed::RunOnce, grace: DAY, ..ask(tick) };
    for ask in [ask(tick), eager] {
        let new = TickClaim { known_for: SHORT / 2, ..ask };
        assert_eq!(bench.claim(&claim_with("new", LONG, new)).await, ClaimDecision::Unregistered);
    }
    bench.pause(true).await;
    let new = TickClaim { known_for: SHORT / 2, ..ask(tick) };
    assert_eq!(bench.claim(&claim_with("new", LONG, new)).await, ClaimDecision::Unregistered);
    assert_eq!(bench.history().await.skips, [], "what does not count is not skipped either");
    bench.pause(false).await;
    // It decided nothing: a server that saw the tick coming can still start it.
    bench.win(&claim("old", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn tick_that_the_server_expected_is_run() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.win(&claim_with("a", LONG, TickClaim { known_for: SHORT + LONG, ..ask(tick) })).await;
}

#[tokio::test(start_paused = true)]
async fn tick_that_the_store_knew_of_is_run_by_a_new_server() {
    let bench = bench();
    bench.register().await;
    let tick = bench.tick_now().await;
    bench.win(&newcomer("new", SCHEDULE, tick)).await;
}

#[tokio::test(start_paused = true)]
async fn first_claim_registers_the_schedule_whatever_its_answer() {
    let subject = &subject();
    for answers in ["unregistered", "late", "paused", "held", "won"] {
        let bench = Bench::with_key(subject, answers);
        let tick = bench.tick_ago(SHORT).await;
        let first = match answers {
            "unregistered" => newcomer("a", SCHEDULE, tick),
            "late" => claim("a", tick - LONG),
            _ => claim("a", tick),
        };
        bench.pause(answers == "paused").await;
        if answers == "held" {
            bench.win(&claim_now("z", LONG)).await;
        }
        let answer = bench.answer(&first).await;
        assert_eq!(answer.reply.other_schedule, None);
        let known_for = if answers == "unregistered" { Duration::ZERO } else { DAY };
        let known = Some(registered(SCHEDULE, answer.at, "a", known_for));
        assert_eq!(bench.history().await.registered, known, "{answers}");

        // The same schedule again changes nothing.
        let again = bench.verdict(&newcomer("b", SCHEDULE, tick + MOMENT)).await;
        assert_eq!(again.other_schedule, None);
        assert_eq!(bench.history().await.registered, known);
    }
}

#[tokio::test(start_paused = true)]
async fn early_and_manual_claims_register_nothing() {
    let bench = bench();
    let early = claim("a", bench.now().await + LONG);
    let reply = bench.claim(&early).await;
    assert!(matches!(reply, ClaimDecision::Early(_)), "{reply:?}");
    bench.finish(&claim_now("a", LONG)).await;
    assert_eq!(bench.history().await.registered, None);
}

#[tokio::test(start_paused = true)]
async fn newer_servers_schedule_counts_and_both_sides_see_the_other_one() {
    let bench = bench();
    let old = Some(registered(SCHEDULE, bench.register().await, "a", DAY));
    let tick = bench.tick_now().await;

    let answer = bench.answer(&newcomer("new", OTHER, tick)).await;
    assert_eq!(answer.reply.other_schedule, old);
    let new = Some(registered(OTHER, answer.at, "new", Duration::ZERO));
    assert_eq!(bench.history().await.registered, new);

    for _ in 0..2 {
        let verdict = bench.verdict(&veteran("a", SCHEDULE, tick)).await;
        assert_eq!(verdict.other_schedule, new);
        assert_eq!(bench.history().await.registered, new, "an old server changes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn newer_server_counts_although_it_began_before_the_older_one_registered() {
    let bench = bench();
    bench.register().await;
    let tick = bench.tick_now().await;
    let newer = TickClaim { known_for: DAY / 2, schedule: OTHER.into(), ..ask(tick) };
    bench.verdict(&claim_with("newer", LONG, newer)).await;
    assert_eq!(bench.history().await.registered.expect("it is").schedule.as_ref(), OTHER);
}

#[tokio::test(start_paused = true)]
async fn changed_schedule_has_missed_nothing() {
    let bench = bench();
    bench.register().await;
    let before = bench.tick_now().await;
    let missed = |schedule: &str, tick| {
        let policy = TickClaim { missed: Missed::RunOnce, grace: Duration::ZERO, ..ask(tick) };
        let ask = TickClaim { known_for: Duration::ZERO, schedule: schedule.into(), ..policy };
        claim_with("new", LONG, ask)
    };
    assert_eq!(bench.claim(&missed(OTHER, before)).await, ClaimDecision::Unregistered);
    let after = bench.tick_now().await;
    bench.finish(&missed(OTHER, after)).await;
}

#[tokio::test(start_paused = true)]
async fn schedule_that_is_no_longer_registered_makes_no_tick_missed() {
    let bench = bench();
    bench.register().await;
    let changed = bench.tick_now().await;
    bench.claim(&newcomer("new", OTHER, changed)).await;
    let tick = bench.tick_now().await;
    // An old server that saw the tick coming may start it in time, but not make up for it.
    let old = TickClaim { missed: Missed::RunOnce, grace: Duration::ZERO, ..ask(tick) };
    let late = bench.claim(&claim_with("old", LONG, old)).await;
    assert!(matches!(late, ClaimDecision::Late(_)), "{late:?}");
    bench.win(&veteran("old", SCHEDULE, tick)).await;
}

#[tokio::test(start_paused = true)]
async fn two_schedules_side_by_side_start_each_tick_at_most_once() {
    let bench = bench();
    let mut won = 0;
    for round in 0..8 {
        let tick = bench.tick_now().await;
        let mut claims = [veteran("old", SCHEDULE, tick), newcomer("new", OTHER, tick)];
        claims.rotate_left(round % 2);
        for claim in claims {
            if let ClaimDecision::Won(new) = bench.claim(&claim).await {
                won += 1;
                bench.release(&new.lease, RunOutcome::Succeeded).await;
            }
        }
    }
    assert_eq!(won, 8);
    assert_eq!(bench.history().await.stats.runs, 8);
}

/// The new server is stopped or cut off, and an old one moves the mark past its ticks.
#[tokio::test(start_paused = true)]
async fn older_server_reports_the_ticks_that_a_newer_schedule_missed() {
    for (every, misses) in [("every 1s", true), ("every 1day", false)] {
        let bench = bench();
        let tick = bench.tick_now().await;
        assert_eq!(bench.claim(&newcomer("new", every, tick)).await, ClaimDecision::Unregistered);
        let after = bench.history().await.registered.expect("a registration").at;
        tokio::time::sleep(3 * Duration::from_secs(1)).await;
        let before = bench.tick_now().await;
        let won = bench.won(&veteran("old", SCHEDULE, before)).await;
        let gap = Gap { after, before, schedule: Some(every.into()) };
        assert_eq!(won.missed, if misses { vec![gap] } else { vec![] });
    }
}
