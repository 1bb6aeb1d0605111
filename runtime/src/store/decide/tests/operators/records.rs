//! Run and skip records, and the current run.

use std::time::Duration;

use crate::history::{CurrentRun, FailedTry, History, Progress, RunOutcome, RunRecord, Trigger};
use crate::store::{ActionKind, Claim, Ending, Lease, LeaseKind, ReleaseReply};

use crate::store::decide::tests::{bench, subject};
use crate::testing::store::bench::{Bench, LONG, SHORT, claim, claim_now, ending};

#[tokio::test(start_paused = true)]
async fn release_records_its_run_in_the_same_step() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    let end = ending(RunOutcome::Succeeded);
    let answer = bench.client.release(&bench.key, &lease, &end).await.expect("release");
    let history = bench.history().await;
    assert_eq!(history.runs, [record(&lease, RunOutcome::Succeeded, answer.at)]);
    assert_eq!((history.current, history.skips, history.pause), (None, Vec::new(), None));
}

fn record(lease: &Lease, outcome: RunOutcome, ended: crate::Timestamp) -> RunRecord {
    RunRecord {
        tick: lease.tick,
        server: lease.server.to_string(),
        fence: lease.fence,
        attempt: lease.attempt,
        started: lease.since,
        ended,
        outcome,
        error: None,
        failed_tries: Vec::new(),
        log: None,
        progress: lease.progress.clone(),
        request: None,
        trigger: lease.trigger,
        by: None,
        stopped_by: None,
        app_version: None,
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_recorded_once_however_often_it_is_sent() {
    let bench = bench();
    let lease = bench.finish(&claim_now("a", LONG)).await;
    for _ in 0..3 {
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    }
    assert_eq!(bench.history().await.runs.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn crash_is_shown_before_it_is_recorded_and_recorded_the_same() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let mut crashed = bench.win(&claim("a", tick)).await;
    crashed.progress = Some(progress(3));
    bench.shorten(&mut crashed).await;
    bench.outlive(&crashed).await;
    let shown = bench.history().await;
    assert_eq!(shown.runs, [record(&crashed, RunOutcome::Crashed, crashed.until)]);
    assert_eq!(shown.current, None);

    bench.win(&claim_now("b", LONG)).await;
    let recorded = bench.history().await;
    assert_eq!((recorded.runs, recorded.stats), (shown.runs, shown.stats));
}

#[tokio::test(start_paused = true)]
async fn current_run_is_shown_with_its_progress() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let mut lease = bench.win(&claim("a", tick)).await;
    for done in [None, Some(progress(1)), Some(progress(2))] {
        lease.progress = done;
        bench.keep(&mut lease).await;
        let current = CurrentRun {
            tick: Some(tick),
            server: "a".to_owned(),
            fence: lease.fence,
            attempt: 1,
            started: lease.since,
            until: lease.until,
            progress: lease.progress.clone(),
            request: None,
            trigger: Trigger::Schedule,
            by: None,
            app_version: None,
            cancelled_by: None,
        };
        let history = bench.history().await;
        assert_eq!((history.current, history.runs), (Some(current), Vec::new()));
    }
    lease.progress = Some(progress(7));
    bench.release(&lease, RunOutcome::Failed).await;
    assert_eq!(bench.history().await.current, None);
    assert_eq!(bench.newest_run().await.progress, lease.progress);
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_the_progress_is_restored() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    let lease = Lease { progress: Some(progress(4)), ..lease };
    bench.wipe().await;
    bench.extend(&lease).await;
    assert_eq!(bench.history().await.current.expect("a run goes on").progress, Some(progress(4)));
    bench.wipe().await;
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    assert_eq!(bench.newest_run().await.progress, Some(progress(4)));
}

fn progress(done: u64) -> Progress {
    Progress { done, total: u64::MAX, status: format!("\"{done}\" ☃\n of many") }
}

#[tokio::test(start_paused = true)]
async fn errors_failed_tries_and_logs_are_recorded_word_for_word() {
    let bench = bench();
    let text = "no route to \"db\"\n\tat C:\\jobs/import\u{0} 100 % ☃ {\"a\":[1e99]}";
    let lease = bench.win(&claim_now("a", LONG)).await;
    let failed = |number| FailedTry { number, at: lease.since, error: format!("{number}: {text}") };
    let end = Ending {
        error: Some(text.to_owned()),
        failed_tries: vec![failed(1), failed(2)],
        log: Some(format!("log: {text}")),
        ..ending(RunOutcome::Failed)
    };
    bench.release_with(&lease, &end).await;
    let run = bench.newest_run().await;
    assert_eq!((run.error.as_deref(), &run.failed_tries), (Some(text), &end.failed_tries));
    assert_eq!(run.log, end.log);
}

#[tokio::test(start_paused = true)]
async fn as_many_runs_and_skips_are_kept_as_the_newest_step_asks_for() {
    let bench = bench();
    let mut fences = Vec::new();
    for (remember, left) in [(4, 1), (4, 2), (4, 3), (4, 4), (4, 4), (2, 2), (4, 3)] {
        let lease = bench.win(&claim_now("a", LONG)).await;
        bench.release_with(&lease, &Ending { remember, ..ending(RunOutcome::Failed) }).await;
        fences.insert(0, lease.fence);
        assert_eq!(kept(&bench).await.0, fences[..left]);
    }

    bench.pause(true).await;
    let start = bench.tick_ago(Duration::from_secs(1)).await;
    let mut ticks = Vec::new();
    for number in 0..5 {
        let tick = start + Duration::from_millis(number);
        bench.claim(&Claim { remember: 3, ..claim("a", tick) }).await;
        ticks.insert(0, tick);
    }
    assert_eq!(kept(&bench).await.1, ticks[..3]);
}

async fn kept(bench: &Bench) -> (Vec<i64>, Vec<crate::Timestamp>) {
    let History { runs, skips, .. } = bench.history().await;
    (runs.iter().map(|run| run.fence).collect(), skips.iter().map(|skip| skip.tick).collect())
}

#[tokio::test(start_paused = true)]
async fn crash_is_recorded_beside_as_many_runs_as_the_claim_asks_for() {
    let bench = bench();
    for _ in 0..3 {
        bench.finish(&claim_now("a", LONG)).await;
    }
    let crashed = bench.win(&claim_now("b", SHORT)).await;
    bench.outlive(&crashed).await;
    bench.win(&Claim { remember: 2, ..claim_now("c", LONG) }).await;
    let runs = bench.history().await.runs;
    assert_eq!(runs.iter().map(|run| run.outcome.as_str()).collect::<Vec<_>>(), ["crashed", "succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_an_unknown_key() {
    let subject = &subject();
    assert_eq!(Bench::with_key(subject, "never-seen").history().await, History::default());
}

#[test]
fn names_are_shown_as_they_are_stored() {
    fn stored<T: serde::de::DeserializeOwned>(name: &str) -> T {
        serde_json::from_value(name.into()).unwrap()
    }
    for name in ["pause", "resume", "run", "cancel", "unlock", "reset", "forget"] {
        let action: ActionKind = stored(name);
        assert_eq!((action.as_str(), format!("{action:>11}")), (name, format!("{name:>11}")));
    }
    let outcomes = ["succeeded", "failed", "timed_out", "panicked", "cancelled", "lease_lost", "crashed"];
    for name in outcomes.into_iter().chain(["not_started", "broken"]) {
        let outcome: RunOutcome = stored(name);
        assert_eq!((outcome.as_str(), format!("{outcome:>11}")), (name, format!("{name:>11}")));
    }
    for name in ["schedule", "manual", "takeover", "missed"] {
        let trigger: Trigger = stored(name);
        assert_eq!((trigger.as_str(), format!("{trigger:>11}")), (name, format!("{name:>11}")));
    }
    for name in ["run", "lock", "once", "leader"] {
        assert_eq!(stored::<LeaseKind>(name).as_str(), name);
    }
    assert_eq!(LeaseKind::Slot { of: 2 }.as_str(), "slot");
}
