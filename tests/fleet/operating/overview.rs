//! Everything about the fleet in one call.

use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::Job;
use jobs::fleet::{ActionKind, JobAlert, JobOverview, LeaseKind, Overview};
use jobs::history::RunOutcome;
use jobs::testing::Fleet;

use crate::common::{HOUR, Notes, job, secs};

fn of<'a>(overview: &'a Overview, key: &str) -> &'a JobOverview {
    overview.jobs.iter().find(|job| job.key == key).unwrap_or_else(|| panic!("no {key}: {overview:?}"))
}

#[tokio::test(start_paused = true)]
async fn overview_shows_schedules_runs_problems_servers_locks_and_actions() {
    let notes = Notes::new();
    let nightly = Job::builder("nightly").every_in("0 3 * * *", "Europe/Berlin").ttl(secs(60));
    let failing = Job::builder("failing").every("30m").ttl(secs(30)).run(|_| async { Err::<(), _>("boom") });
    let failing = move || failing.clone().build().unwrap();
    let fleet = Fleet::of(2)
        .job(notes.lasting(job("1h", 30), 60))
        .job(notes.lasting(nightly, 5))
        .job(failing)
        .start()
        .await
        .unwrap();
    let server = fleet.server(0);
    // Noon; the hourly job runs from 13:00 to 13:01.
    fleet.run_for(secs(HOUR + 30)).await;
    let guard = server.lock("payment:1").ttl("30s").acquire().await.unwrap();
    server.by("anna").pause("nightly").reason("the database moves").await.unwrap();
    let overview = server.overview().await.unwrap();
    assert_eq!(overview.jobs.iter().map(|job| &*job.key).collect::<Vec<_>>(), ["failing", "job", "nightly"]);

    let hourly = of(&overview, "job");
    assert_eq!(hourly.schedule.as_deref(), Some("every 1h"));
    assert_eq!(hourly.next.map(|next| next.to_string()).as_deref(), Some("2027-01-15T14:00:00Z"));
    assert!(hourly.current.as_ref().is_some_and(|run| run.tick.is_some()));
    assert_eq!((hourly.alerts(), hourly.servers.len()), (vec![], 2));

    let failing = of(&overview, "failing");
    assert_eq!(failing.alerts(), [JobAlert::Failing]);
    assert_eq!((failing.runs.len(), failing.runs[0].outcome), (2, RunOutcome::Failed));
    assert_eq!(failing.stats.failures_in_row, 2);

    let nightly = of(&overview, "nightly");
    // No tick of it was ever claimed: the schedule comes from the manifest of its servers.
    assert_eq!(nightly.schedule.as_deref(), Some("0 3 * * * Europe/Berlin"));
    assert_eq!((nightly.next, nightly.variants.len()), (None, 1), "it is paused without an end");
    assert_eq!(nightly.alerts(), [JobAlert::Paused]);
    assert_eq!(nightly.pause.as_ref().map(|pause| &*pause.by), Some("anna"));

    let held: Vec<_> = overview.locks.iter().map(|lock| (&*lock.key, lock.kind)).collect();
    assert_eq!(held, [("payment:1", Some(LeaseKind::Lock))]);
    assert_eq!(overview.servers.len(), 2);
    assert_eq!(overview.actions[0].what, ActionKind::Pause);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn job_whose_servers_are_gone_is_overdue_and_has_no_server() {
    let notes = Notes::new();
    let (old, made) = (notes.lasting(job("1h", 30), 5), AtomicUsize::new(0));
    let other = || Job::builder("other").run(|_| async {}).build().unwrap();
    let jobs = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { old() } else { other() };
    let mut fleet = Fleet::of(1).job(jobs).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.server(0).crash();
    fleet.run_for(secs(3 * HOUR)).await;
    let added = fleet.add_server().await.unwrap();
    let overview = fleet.server(added).overview().await.unwrap();
    let hourly = of(&overview, "job");
    assert_eq!(hourly.alerts(), [JobAlert::NoServer, JobAlert::Overdue]);
    assert_eq!(hourly.next, None, "no server will claim a tick");
    assert_eq!(hourly.overdue.map(|tick| tick.to_string()).as_deref(), Some("2027-01-15T16:00:00Z"));
}
