use std::sync::Arc;

use jobs::Run;
use jobs::events::EventKind;
use jobs::history::RunOutcome;
use jobs::testing::Fleet;

use crate::common::{AGES, HOUR, Heard, Notes, job, outcomes, secs};

async fn fails_twice(run: Run) -> Result<(), String> {
    if run.retry() < 2 { Err(format!("try {}", run.retry())) } else { Ok(()) }
}

async fn fails(run: Run) -> Result<(), String> {
    Err(format!("try {}", run.retry()))
}

#[tokio::test(start_paused = true)]
async fn a_failed_try_is_repeated_under_the_same_lease() {
    let notes = Notes::new();
    let plan = job("1h", 30).retries(5, secs(1));
    let fleet = Fleet::of(3).job(notes.job(plan, fails_twice)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    let starts = notes.starts();
    assert_eq!(starts.iter().map(|start| start.retry).collect::<Vec<_>>(), [0, 1, 2]);
    let first = &starts[0];
    assert!(starts.iter().all(|start| (start.fence, &start.server) == (first.fence, &first.server)));
    assert!(starts.iter().all(|start| start.attempt == 1), "a retry is no takeover");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn failure_without_retries_ends_the_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.job(job("1h", 30), fails_twice)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 600)).await;
    assert_eq!(notes.starts().len(), 1);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Failed]);
}

#[tokio::test(start_paused = true)]
async fn every_try_is_on_record() {
    let plan = job("1h", 30).retries(2, secs(1));
    let fleet = Fleet::of(1).job(Notes::new().job(plan, fails)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR + 60)).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Failed, Some("try 2")));
    let tries: Vec<_> =
        run.failed_tries.iter().map(|failed| (failed.number, failed.error.as_str())).collect();
    assert_eq!(tries, [(1, "try 0"), (2, "try 1")]);
    assert!(run.started <= run.failed_tries[0].at && run.failed_tries[0].at <= run.failed_tries[1].at);
    let retried = heard.count(|kind| matches!(kind, EventKind::Retrying { .. }));
    let failed = heard.count(|kind| matches!(kind, EventKind::Failed { error, .. } if error == "try 2"));
    assert_eq!((retried, failed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_tries_stay_on_record() {
    let plan = job("24h", 30).retries(15, secs(1));
    let fleet = Fleet::of(1).job(Notes::new().job(plan, fails)).start().await.unwrap();
    fleet.run_for(secs(18 * HOUR)).await;
    let run = fleet.history("job").await.runs.remove(0);
    let numbers: Vec<_> = run.failed_tries.iter().map(|failed| failed.number).collect();
    assert_eq!(numbers, (6..=15).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_repeated_like_an_error() {
    let notes = Notes::new();
    let panics_once = |run: Run| async move { assert!(run.retry() > 0, "the first try") };
    let plan = job("1h", 30).retries(1, secs(1));
    let fleet = Fleet::of(1).job(notes.job(plan, panics_once)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.outcome, run.failed_tries[0].error.as_str()), (RunOutcome::Succeeded, "the first try"));
    assert_eq!(notes.starts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_alive_between_two_tries() {
    let notes = Notes::new();
    let plan = job("60s", 6).retries(1, AGES);
    let fleet = Fleet::of(3).job(notes.job(plan, fails)).start().await.unwrap();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [60], "nobody else started, though a hundred ttls have passed");
    let current = fleet.history("job").await.current.expect("the run goes on");
    assert_eq!(current.fence, notes.starts()[0].fence);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_a_cap_and_are_random_within_their_bound() {
    let plan = job("1h", 30).retries(8, secs(10));
    let fleet = Fleet::of(1).job(Notes::new().job(plan, fails)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(40 * HOUR)).await;
    let mut pauses = vec![Vec::new(); 9];
    for kind in heard.all() {
        if let EventKind::Retrying { retry, pause, .. } = kind {
            pauses[retry as usize].push(pause);
        }
    }
    for (retry, bound) in [10, 20, 40, 80, 160, 300, 300, 300].into_iter().enumerate() {
        let (pauses, bound) = (&pauses[retry + 1], secs(bound));
        assert!(pauses.len() >= 38, "{} pauses before retry {}", pauses.len(), retry + 1);
        assert!(pauses.iter().all(|pause| *pause <= bound), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > bound / 2), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause < bound / 2), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_pause_leaves_the_tries_that_are_left_to_another_server() {
    let notes = Notes::new();
    let plan = job("1h", 30).retries(1, AGES).retry_on_crash(1);
    let mut fleet = Fleet::of(1).job(notes.job(plan, fails)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    let before = fleet.now();
    fleet.shut_down(0).await;
    assert!(fleet.now().since(before) < secs(1), "a pause is not worth waiting for");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Cancelled]);
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.attempts(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_between_two_tries_stops_the_run_even_as_a_try_fails() {
    let notes = Notes::new();
    let plan = job("1h", 30).retries(9, secs(1));
    let slowly = notes.job(plan, |run| async move {
        tokio::time::sleep(secs(8)).await;
        fails(run).await
    });
    let mut fleet = Fleet::of(1).job(slowly).start().await.unwrap();
    fleet.run_for(secs(HOUR + 4)).await;
    fleet.shut_down(0).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Cancelled, Some("try 0")));
    assert_eq!(notes.starts().len(), 1, "the try that went on could end, and no further one began");
}

#[tokio::test(start_paused = true)]
async fn a_lease_lost_in_the_pause_ends_the_run() {
    let notes = Notes::new();
    let told = Arc::new(std::sync::Mutex::new(None));
    let keep = told.clone();
    let plan = job("1h", 30).retries(1, AGES);
    let failing = notes.job(plan, move |run: Run| {
        *keep.lock().unwrap() = Some(run.clone());
        fails(run)
    });
    let fleet = Fleet::of(1).job(failing).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(40)).await;
    assert!(told.lock().unwrap().as_ref().is_some_and(Run::is_cancelled), "what it spawned is told");
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(10)).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!(run.outcome, RunOutcome::LeaseLost);
    assert_eq!(notes.starts().len(), 1);
}
