//! The state of a job on a server.

use super::*;
use crate::RunNow;

#[tokio::test(start_paused = true)]
async fn runs_in_progress_are_counted_until_they_end() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(2).job(|| lasting(60)).start().await.unwrap();
    assert_eq!(page.of_job("jobs_running"), Some(0.0));
    fleet.run_for(secs(HOUR + 30)).await;
    assert_eq!(page.of_job("jobs_running"), Some(1.0));
    fleet.run_for(secs(60)).await;
    assert_eq!(page.of_job("jobs_running"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn last_success_is_the_end_of_the_last_run_that_succeeded() {
    let (page, _recorder) = Page::install();
    let fails_from_two_on = || {
        let fails = |run: Run| async move {
            tokio::time::sleep(secs(5)).await;
            if hour(&run) > 2 { Err("no luck") } else { Ok(()) }
        };
        hourly().run(fails).build().unwrap()
    };
    let fleet = Fleet::of(1).job(fails_from_two_on).start().await.unwrap();
    assert_eq!(page.of_job("jobs_last_success_timestamp_seconds"), None);
    fleet.run_for(secs(4 * HOUR)).await;
    assert_eq!(page.of_job("jobs_last_success_timestamp_seconds"), Some(NOON + 7205.0));
}

#[tokio::test(start_paused = true)]
async fn next_tick_is_the_one_after_the_last_that_was_claimed() {
    let (page, _recorder) = Page::install();
    let unscheduled = || Job::builder("manual").ttl("30s").run(|_| async {}).build().unwrap();
    let mut fleet = Fleet::of(1).job(|| lasting(5)).job(unscheduled).start().await.unwrap();
    let next = || page.of_job("jobs_next_tick_timestamp_seconds");
    fleet.run_for(secs(60)).await;
    assert_eq!(next(), Some(NOON + 3600.0));
    assert_eq!(page.get("jobs_next_tick_timestamp_seconds{job_name=\"manual\"}"), Some(0.0), "no schedule");
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(next(), Some(NOON + 7200.0));
    fleet.shut_down(0).await;
    assert_eq!(next(), Some(0.0), "it claims no more");
}

/// A fleet of two whose servers have a page each.
async fn two_pages(job: impl Fn() -> Job + Send + Sync + 'static) -> (Fleet, [Page; 2]) {
    let (first, recorder) = Page::install();
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    drop(recorder);
    let (second, _recorder) = Page::install();
    fleet.add_server().await.unwrap();
    (fleet, [first, second])
}

#[tokio::test(start_paused = true)]
async fn job_is_overdue_on_a_server_until_it_learns_of_a_later_start() {
    let (fleet, pages) = two_pages(|| lasting(5)).await;
    let overdue = || pages.each_ref().map(|page| page.of_job("jobs_overdue"));
    assert_eq!(overdue(), [Some(0.0); 2]);
    fleet.run_for(secs(HOUR - 60)).await;
    fleet.server(1).cut_off(true);
    fleet.run_for(secs(HOUR - 120)).await;
    assert_eq!(overdue(), [Some(0.0), Some(1.0)]);
    fleet.server(1).cut_off(false);
    fleet.run_for(secs(240)).await;
    assert_eq!(overdue(), [Some(0.0); 2], "one of them has started it, the other one has lost it");
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(2 * HOUR)).await;
    assert_eq!(overdue(), [Some(1.0); 2]);
}

#[tokio::test(start_paused = true)]
async fn job_is_paused_on_every_server_that_claims_until_the_tick_after_its_resumption() {
    let (fleet, pages) = two_pages(|| lasting(5)).await;
    let paused = || pages.each_ref().map(|page| page.of_job("jobs_paused"));
    fleet.run_for(secs(HOUR + 60)).await;
    assert_eq!(paused(), [Some(0.0); 2]);
    fleet.server(0).pause("job").await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(paused(), [Some(1.0); 2], "one has recorded the skip, the other one has found it");
    for server in fleet.servers() {
        assert!(matches!(server.run_now("job").await, Ok(RunNow::Ran(_))));
    }
    assert_eq!(paused(), [Some(1.0); 2], "a manual run does not resume it");
    fleet.server(1).resume("job").await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(paused(), [Some(0.0); 2]);
}

#[tokio::test(start_paused = true)]
async fn paused_job_is_not_overdue() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(5)).start().await.unwrap();
    fleet.run_for(secs(60)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(2 * HOUR - 120)).await;
    assert_eq!(page.of_job("jobs_overdue"), Some(1.0));
    fleet.cut_off_the_store(false);
    fleet.server(0).pause("job").await.unwrap();
    fleet.run_for(secs(240)).await;
    assert_eq!((page.of_job("jobs_overdue"), page.of_job("jobs_paused")), (Some(0.0), Some(1.0)));
}

#[tokio::test(start_paused = true)]
async fn lost_lease_is_counted() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(60)).start().await.unwrap();
    assert_eq!(page.of_job("jobs_lease_lost_total"), Some(0.0));
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(120)).await;
    assert_eq!(page.of_job("jobs_lease_lost_total"), Some(1.0));
    assert_eq!(page.ticks("lease_lost"), Some(1.0));
}
