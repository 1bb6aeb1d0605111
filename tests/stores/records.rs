//! What a store remembers.

use std::time::Duration;

use jobs::store::model::REMEMBERED;
use jobs::store::{Ending, History, ReleaseReply, RunOutcome, RunRecord};

use super::support::bench::{Bench, LONG, SHORT, ask, claim, claim_now, claim_with};
use super::support::subject::Subject;

pub async fn a_release_records_its_run_in_the_same_step(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    let end = Ending { outcome: RunOutcome::Succeeded, error: None };
    let answer = bench.store.release(&bench.key, &lease, &end).await.expect("release");
    let expected = RunRecord {
        tick: Some(tick),
        server: "a".to_owned(),
        fence: lease.fence,
        attempt: 1,
        started: lease.since,
        ended: answer.at,
        outcome: RunOutcome::Succeeded,
        error: None,
    };
    assert_eq!(bench.history().await, History { runs: vec![expected], skips: Vec::new() });
}

pub async fn a_release_is_recorded_once_however_often_it_is_sent(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.finish(&claim_now("a", LONG)).await;
    for _ in 0..3 {
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    }
    assert_eq!(bench.history().await.runs.len(), 1);
}

pub async fn a_crashed_run_is_recorded_by_the_next_claim(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let crashed = bench.win(&claim_with("a", SHORT, ask(tick))).await;
    bench.outlive(&crashed).await;
    assert!(bench.history().await.runs.is_empty());
    let next = bench.win(&claim_now("b", LONG)).await;
    let expected = RunRecord {
        tick: Some(tick),
        server: "a".to_owned(),
        fence: crashed.fence,
        attempt: 1,
        started: crashed.since,
        ended: next.since,
        outcome: RunOutcome::Crashed,
        error: None,
    };
    assert_eq!(bench.history().await.runs, [expected]);
}

pub async fn an_error_is_recorded_word_for_word(subject: &Subject) {
    let bench = Bench::of(subject);
    let error = "no route to \"db\"\n\tat C:\\jobs/import\u{0} 100 % ☃ {\"a\":[1e99]}";
    let lease = bench.win(&claim_now("a", LONG)).await;
    let end = Ending { outcome: RunOutcome::Failed, error: Some(error.to_owned()) };
    bench.store.release(&bench.key, &lease, &end).await.expect("release");
    assert_eq!(bench.history().await.runs[0].error.as_deref(), Some(error));
}

pub async fn the_newest_runs_and_skips_are_kept(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut fences = Vec::new();
    for _ in 0..REMEMBERED + 3 {
        fences.insert(0, bench.finish(&claim_now("a", LONG)).await.fence);
    }
    bench.pause(true).await;
    let start = bench.tick_ago(Duration::from_secs(1)).await;
    let mut ticks = Vec::new();
    for number in 0..REMEMBERED + 3 {
        let tick = start.plus(Duration::from_millis(number as u64));
        bench.claim(&claim("a", tick)).await;
        ticks.insert(0, tick);
    }
    let History { runs, skips } = bench.history().await;
    assert_eq!(runs.iter().map(|run| run.fence).collect::<Vec<_>>(), fences[..REMEMBERED]);
    assert_eq!(skips.iter().map(|skip| skip.tick).collect::<Vec<_>>(), ticks[..REMEMBERED]);
}

pub async fn nothing_is_remembered_of_an_unknown_key(subject: &Subject) {
    assert_eq!(Bench::with_key(subject, "never-seen").history().await, History::default());
}
