use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::Run;
use jobs::history::Progress;
use jobs::testing::Fleet;

use crate::common::{HOUR, Notes, job, secs};

/// Says each second how far it is, for a hundred seconds.
async fn tells(run: Run) {
    run.set_status("importing");
    for second in 0..100 {
        run.set_progress(second, 100);
        tokio::time::sleep(secs(1)).await;
    }
    run.set_status("done");
}

#[tokio::test(start_paused = true)]
async fn progress_is_seen_by_every_server_after_the_next_keep_alive() {
    let fleet = Fleet::of(3).job(Notes::new().job(job("1h", 30), tells)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 9)).await;
    let current = |server: usize| {
        let server = fleet.server(server);
        async { server.history("job").await.unwrap().current.expect("it goes on") }
    };
    assert_eq!(current(1).await.progress, None, "it travels with the keep-alive, a third of the ttl later");
    fleet.run_for(secs(2)).await;
    for server in 0..3 {
        let progress = current(server).await.progress.expect("it was kept alive");
        assert!((9..=11).contains(&progress.done) && progress.total == 100, "{progress:?}");
        assert_eq!(progress.status, "importing");
    }
    fleet.run_for(secs(40)).await;
    assert!(current(2).await.progress.unwrap().done >= 40);
}

#[tokio::test(start_paused = true)]
async fn final_status_is_part_of_the_record_and_of_what_a_hook_is_called_with() {
    let hooked = Arc::new(Mutex::new(None));
    let noted = hooked.clone();
    let job = job("1h", 30).on_success(move |run| {
        *noted.lock().unwrap() = run.record.progress;
        async {}
    });
    let fleet = Fleet::of(1).job(Notes::new().job(job, tells)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 120)).await;
    let history = fleet.history("job").await;
    assert!(history.current.is_none());
    let said = Progress { done: 99, total: 100, status: "done".to_owned() };
    assert_eq!(history.runs[0].progress, Some(said.clone()));
    assert_eq!(*hooked.lock().unwrap(), Some(said));
}

#[tokio::test(start_paused = true)]
async fn record_of_a_crash_has_the_progress_of_its_run() {
    let fleet = Fleet::of(1).job(Notes::new().job(job("1h", 30), tells)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 25)).await;
    fleet.server(0).crash();
    fleet.run_for(secs(60)).await;
    let progress = fleet.history("job").await.runs[0].progress.clone().expect("it was kept alive twice");
    assert!((18..=20).contains(&progress.done), "{progress:?}");
}

#[tokio::test(start_paused = true)]
async fn job_that_sets_no_progress_has_none() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 50)).await;
    assert_eq!(fleet.history("job").await.current.unwrap().progress, None);
    fleet.run_for(secs(20)).await;
    assert_eq!(fleet.history("job").await.runs[0].progress, None);
}

#[tokio::test(start_paused = true)]
async fn a_long_status_is_cut_between_characters() {
    let talks = |run: Run| async move { run.set_status("ü".repeat(100_000)) };
    let fleet = Fleet::of(1).job(Notes::new().job(job("1h", 30), talks)).start().await.unwrap();
    fleet.run_for(secs(HOUR) + Duration::from_millis(10)).await;
    let status = fleet.history("job").await.runs[0].progress.clone().unwrap().status;
    assert_eq!(status, "ü".repeat(200));
}

#[tokio::test(start_paused = true)]
async fn progress_outlives_a_failed_try() {
    let fails_once = |run: Run| async move {
        if run.retry() == 0 {
            run.set_progress(7, 10);
            return Err("no luck");
        }
        Ok(())
    };
    let plan = job("1h", 30).retries(1, secs(1));
    let fleet = Fleet::of(1).job(Notes::new().job(plan, fails_once)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    assert_eq!(fleet.history("job").await.runs[0].progress.clone().unwrap().done, 7);
}
