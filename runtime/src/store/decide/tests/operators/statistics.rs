//! Counts over the runs of a job.

use std::time::Duration;

use crate::history::{RunOutcome, Stats};
use crate::store::{Ending, Lease, ReleaseReply, TickClaim};

use crate::store::decide::tests::bench;
use crate::testing::store::bench::{Bench, LONG, MOMENT, SHORT, ask, claim_now, claim_with, ending};

async fn stats(bench: &Bench) -> Stats {
    bench.history().await.stats
}

#[tokio::test(start_paused = true)]
async fn every_outcome_is_counted_but_what_was_not_started() {
    let bench = bench();
    let (mut runs, mut failures, mut successes) = (0, 0, 0);
    for (outcome, run, failure, success) in [
        (RunOutcome::Succeeded, 1, 0, 1),
        (RunOutcome::Failed, 1, 1, 0),
        (RunOutcome::TimedOut, 1, 1, 0),
        (RunOutcome::Panicked, 1, 1, 0),
        (RunOutcome::Cancelled, 1, 0, 0),
        (RunOutcome::LeaseLost, 1, 0, 0),
        (RunOutcome::NotStarted, 0, 0, 0),
    ] {
        let lease = bench.win(&claim_now("a", LONG)).await;
        bench.release(&lease, outcome).await;
        (runs, failures, successes) = (runs + run, failures + failure, successes + success);
        let stats = stats(&bench).await;
        assert_eq!((stats.runs, stats.failures, stats.successes), (runs, failures, successes), "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_counted_once_however_often_it_is_sent() {
    let bench = bench();
    let lease = bench.finish(&claim_now("a", LONG)).await;
    let once = stats(&bench).await;
    assert_eq!((once.runs, once.successes), (1, 1));
    for outcome in [RunOutcome::Succeeded, RunOutcome::Failed] {
        assert_eq!(bench.release(&lease, outcome).await, ReleaseReply::NotHeld);
    }
    assert_eq!(stats(&bench).await, once);
}

#[tokio::test(start_paused = true)]
async fn crash_is_counted_once() {
    let bench = bench();
    let mut crashed = bench.win(&claim_now("a", LONG)).await;
    assert_eq!(stats(&bench).await, Stats::default());
    bench.shorten(&mut crashed).await;
    bench.outlive(&crashed).await;
    let expected = Stats { runs: 1, failures: 1, failures_in_row: 1, ..Stats::default() };
    assert_eq!(stats(&bench).await, expected, "before it is recorded");
    let next = bench.win(&claim_now("b", LONG)).await;
    assert_eq!(stats(&bench).await, expected);
    assert_eq!(bench.release(&crashed, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    bench.release(&next, RunOutcome::NotStarted).await;
    assert_eq!(stats(&bench).await, expected);
}

#[tokio::test(start_paused = true)]
async fn run_whose_end_was_restored_is_counted() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    bench.wipe().await;
    for reply in [ReleaseReply::Restored, ReleaseReply::NotHeld] {
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, reply);
        assert_eq!(stats(&bench).await.successes, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn durations_of_successful_runs_are_counted() {
    let bench = bench();
    let outcomes = [(RunOutcome::Succeeded, 20), (RunOutcome::Failed, 40), (RunOutcome::Succeeded, 5)];
    for (outcome, millis) in outcomes {
        let lease = bench.win(&claim_now("a", LONG)).await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        bench.release(&lease, outcome).await;
    }
    let history = bench.history().await;
    let [last, failed, first] = history.runs.as_slice() else { panic!("three runs: {history:?}") };
    assert!(failed.duration() >= Duration::from_millis(40), "{failed:?}");
    let micros = [first, last].map(|run| u64::try_from(run.duration().as_micros()).unwrap());
    let expected = Stats {
        runs: 3,
        failures: 1,
        successes: 2,
        total_micros: micros.iter().sum(),
        longest_micros: micros.into_iter().max().unwrap(),
        last_success: Some(last.ended),
        failures_in_row: 0,
    };
    assert_eq!(history.stats, expected);
    assert_eq!(expected.mean(), Some(Duration::from_micros(expected.total_micros / 2)));
    assert_eq!(expected.longest(), Some(first.duration()));
    assert_eq!(Stats::default().longest(), None);
}

#[tokio::test(start_paused = true)]
async fn counts_outlive_the_runs_on_record() {
    let bench = bench();
    for _ in 0..4 {
        let lease = bench.win(&claim_now("a", LONG)).await;
        bench.release_with(&lease, &Ending { remember: 1, ..ending(RunOutcome::Failed) }).await;
    }
    let history = bench.history().await;
    assert_eq!((history.runs.len(), history.stats.runs, history.stats.failures), (1, 4, 4));
}

#[tokio::test(start_paused = true)]
async fn usual_duration_is_known_after_three_successes() {
    let bench = bench();
    let outcomes = [RunOutcome::Succeeded, RunOutcome::Failed, RunOutcome::Succeeded, RunOutcome::Succeeded];
    for outcome in outcomes {
        let claim = claim_now("a", LONG);
        let won = bench.won(&claim).await;
        assert_eq!(won.usual, None);
        tokio::time::sleep(MOMENT).await;
        bench.release(&won.lease, outcome).await;
    }
    let usual = stats(&bench).await.mean();
    assert!(usual >= Some(MOMENT), "{usual:?}");

    let tick = bench.tick_ago(SHORT).await;
    let retried = TickClaim { takeovers: 1, ..ask(tick) };
    let first = claim_with("a", LONG, retried.clone());
    for _ in 0..2 {
        assert_eq!(bench.won(&first).await.usual, usual, "told again with a repeated claim");
    }
    let cut_short = bench.win(&first).await;
    bench.release(&cut_short, RunOutcome::Cancelled).await;
    let takeover = claim_with("b", LONG, retried);
    assert_eq!(bench.won(&takeover).await.usual, usual);
}

/// A clock that stepped back must not make the sums absurd.
#[tokio::test(start_paused = true)]
async fn run_that_began_in_the_future_took_no_time() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    bench.wipe().await;
    let from_then = Lease { since: lease.since + LONG, ..lease };
    assert_eq!(bench.release(&from_then, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    let stats = stats(&bench).await;
    assert_eq!((stats.successes, stats.total_micros, stats.longest_micros), (1, 0, 0));
}
