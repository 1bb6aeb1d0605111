//! Applications whose runtime polls no task: their servers leave every tick to others.

use std::time::Duration;

use jobs::Health;
use jobs::events::{EventKind, SkipReason};
use jobs::history::RunOutcome;
use jobs::schedule::Overlap;
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, Notes, job, outcomes, runner, secs};

fn is_started(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Started(_))
}

#[tokio::test(start_paused = true)]
async fn server_whose_application_is_blocked_leaves_every_tick_to_the_other() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("60s", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(30)).await;
    fleet.server(0).block_application(true);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), (1..=10).map(|minute| 60 * minute).collect::<Vec<_>>());
    assert!(notes.starts().iter().all(|start| start.server == "server-1"));
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded; 10], "nothing was claimed in vain");
}

#[tokio::test(start_paused = true)]
async fn blocked_application_is_reported_once_and_so_is_its_return() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("60s", 30), 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    let told = || {
        let blocked = heard.count(|kind| matches!(kind, EventKind::ApplicationBlocked));
        (blocked, heard.count(|kind| matches!(kind, EventKind::ApplicationBack)))
    };
    fleet.run_for(secs(30)).await;
    assert_eq!(fleet.server(0).health(), Health::Ready);
    fleet.server(0).block_application(true);
    fleet.run_for(secs(300)).await;
    assert!(
        matches!(fleet.server(0).health(), Health::ApplicationBlocked { blocked_for } if blocked_for > secs(200))
    );
    assert_eq!(told(), (1, 0));
    fleet.server(0).block_application(false);
    fleet.run_for(secs(1)).await;
    assert_eq!(fleet.server(0).health(), Health::Ready);
    assert_eq!(told(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn application_that_returns_runs_the_next_tick() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(600)).await;
    fleet.server(0).block_application(true);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.server(0).block_application(false);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [3 * HOUR]);
}

/// A server whose application is blocked between the probe and the claim's answer.
async fn blocked_after_its_probe(notes: &Notes, servers: usize) -> (Fleet, Heard) {
    let plan = job("1h", 30).retry_on_crash(1);
    let fleet = Fleet::of(servers).job(notes.lasting(plan, 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR - 1)).await;
    for number in 0..servers {
        // The first one wins, and its claim takes two requests.
        fleet.server(number).set_latency(Duration::from_millis(if number == 0 { 200 } else { 1500 }));
    }
    fleet.run_for(Duration::from_millis(1300)).await;
    fleet.server(0).block_application(true);
    fleet.run_for(secs(2)).await;
    assert_eq!(fleet.history("job").await.current.expect("it was won").server, "server-0");
    (fleet, heard)
}

#[tokio::test(start_paused = true)]
async fn run_that_is_not_polled_within_a_third_of_its_ttl_is_given_back() {
    let notes = Notes::new();
    let (fleet, heard) = blocked_after_its_probe(&notes, 1).await;
    fleet.run_for(secs(10)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::NotStarted]);
    assert!(fleet.history("job").await.current.is_none(), "the key is free");
    assert_eq!(heard.skips(), [SkipReason::ApplicationBlocked]);
    assert_eq!(heard.count(is_started), 0);
    fleet.run_for(secs(600)).await;
    assert!(notes.starts().is_empty(), "its function was never called");
}

#[tokio::test(start_paused = true)]
async fn run_that_was_given_back_is_taken_over_by_a_server_that_answers() {
    let notes = Notes::new();
    let (fleet, _) = blocked_after_its_probe(&notes, 2).await;
    fleet.run_for(secs(60)).await;
    let [start] = &notes.starts()[..] else { panic!("{:?}", notes.starts()) };
    assert_eq!((start.server.as_str(), start.tick, start.attempt), ("server-1", Some(HOUR), 2));
    assert_eq!(outcomes(&fleet).await, [RunOutcome::NotStarted, RunOutcome::Succeeded]);
    fleet.server(0).block_application(false);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), 1, "the server that returns does not start it late");
}

#[tokio::test(start_paused = true)]
async fn started_event_is_reported_at_the_first_poll() {
    let notes = Notes::new();
    let (fleet, heard) = blocked_after_its_probe(&notes, 1).await;
    fleet.run_for(secs(3)).await;
    assert_eq!(heard.count(is_started), 0);
    fleet.server(0).block_application(false);
    fleet.run_for(secs(1)).await;
    assert_eq!((heard.count(is_started), notes.starts().len()), (1, 1));
    fleet.run_for(secs(60)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn run_that_has_begun_keeps_its_lease_while_the_application_is_blocked() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 30).retry_on_crash(1), 20)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let running = fleet.running("job").await.expect("a run");
    running.block_application(true);
    fleet.run_for(secs(300)).await;
    assert_eq!(notes.attempts(), [1], "ten times its ttl later");
    running.block_application(false);
    fleet.run_for(secs(1)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn queued_tick_is_not_claimed_while_the_application_is_blocked() {
    let notes = Notes::new();
    let queued = job("1h", 30).overlap(Overlap::Queue).grace(secs(HOUR - 60));
    let fleet = Fleet::of(2).job(notes.lasting(queued, HOUR + 600)).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR + 60)).await;
    let running = runner(&fleet).await;
    let waiting = fleet.server(1 - running);
    fleet.server(running).crash();
    waiting.block_application(true);
    fleet.run_for(secs(300)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed], "nothing was claimed in vain");
    waiting.block_application(false);
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.ticks(), [HOUR, 2 * HOUR], "and the tick still runs");
}

#[tokio::test(start_paused = true)]
async fn tick_is_not_taken_over_while_the_application_is_blocked() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 30).retry_on_crash(1), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let running = runner(&fleet).await;
    let waiting = fleet.server(1 - running);
    fleet.server(running).crash();
    // The claim begins while the application answers, and waits for the store.
    waiting.cut_off(true);
    fleet.run_for(secs(30)).await;
    waiting.block_application(true);
    fleet.run_for(secs(5)).await;
    waiting.cut_off(false);
    fleet.run_for(secs(300)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed], "nothing was claimed in vain");
    waiting.block_application(false);
    fleet.run_for(secs(120)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed, RunOutcome::Succeeded]);
    assert_eq!(notes.attempts(), [1, 2]);
}

/// Between two tries of a run nothing of the job goes on.
#[tokio::test(start_paused = true)]
async fn retry_that_is_not_polled_does_not_keep_the_key_from_other_servers() {
    let notes = Notes::new();
    let fails = |run: jobs::Run| async move { if run.retry() == 0 { Err("once") } else { Ok(()) } };
    // The pause is a random part of this: long enough to block the application in it, and over before the test ends.
    let plan = job("1h", 30).retries(1, secs(250));
    let fleet = Fleet::of(2).job(notes.job(plan, fails)).start().await.unwrap();
    fleet.run_for(Duration::from_millis(HOUR * 1000 + 10)).await;
    let [start] = &notes.starts()[..] else { panic!("{:?}", notes.starts()) };
    let hung = fleet.servers().iter().find(|server| server.server_id() == start.server).unwrap();
    hung.block_application(true);
    fleet.run_for(secs(300)).await;
    assert_eq!(notes.starts().len(), 1, "the second try was never polled");
    assert_eq!(fleet.history("job").await.current, None, "ten times its ttl later, and nothing goes on");
}
