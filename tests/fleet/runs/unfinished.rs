//! Runs that end unfinished although their server lives: by a shutdown, or because they lost their lease.

use jobs::JobBuilder;
use jobs::events::SkipReason;
use jobs::history::RunOutcome;
use jobs::schedule::OnLost;
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, Notes, job, outcomes, runner, secs};

fn hourly() -> JobBuilder {
    job("1h", 30).retry_on_crash(1)
}

async fn fleet(servers: usize, job: impl Fn() -> jobs::Job + Send + Sync + 'static) -> Fleet {
    Fleet::of(servers).job(job).shutdown_grace(secs(5)).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn deploy_during_a_run_hands_its_tick_to_another_server() {
    let notes = Notes::new();
    let mut fleet = fleet(2, notes.lasting(hourly(), 120)).await;
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.shut_down(runner(&fleet).await).await;
    assert_eq!(notes.going_on(), 0, "cancelled when the grace was over");
    fleet.run_for(secs(200)).await;
    assert_eq!(notes.attempts(), [1, 2]);
    let wait = notes.starts()[1].at - (HOUR + 65);
    assert!(wait <= 30, "{wait} s after the shutdown");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Cancelled, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn deploy_hands_a_tick_to_a_server_that_started_after_it() {
    let notes = Notes::new();
    let mut fleet = fleet(1, notes.lasting(hourly(), 120)).await;
    fleet.run_for(secs(HOUR + 30)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(30)).await;
    fleet.shut_down(0).await;
    fleet.run_for(secs(31)).await;
    assert_eq!(notes.ticks(), [HOUR, HOUR]);
    assert_eq!(notes.starts()[1].server, "server-1");
}

#[tokio::test(start_paused = true)]
async fn deploy_hands_a_tick_to_a_server_that_started_after_the_shutdown() {
    let notes = Notes::new();
    let mut fleet = fleet(1, notes.lasting(job("60s", 30).retry_on_crash(1), 300)).await;
    fleet.run_for(secs(150)).await;
    fleet.shut_down(0).await;
    fleet.run_for(secs(5)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(1)).await;
    assert_eq!(notes.times(), [(60, 60), (160, 60)], "at once, though tick 120 was skipped for it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn deploy_ends_a_tick_by_default() {
    let notes = Notes::new();
    let mut fleet = fleet(2, notes.lasting(job("1h", 30), 120)).await;
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.shut_down(runner(&fleet).await).await;
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_within_the_grace_of_a_shutdown_is_finished() {
    let notes = Notes::new();
    let mut fleet = fleet(2, notes.lasting(hourly(), 63)).await;
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.shut_down(runner(&fleet).await).await;
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1]);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn server_that_was_stopped_past_its_lease_does_not_continue_its_run() {
    let notes = Notes::new();
    let fleet = fleet(2, notes.lasting(hourly(), 45)).await;
    fleet.run_for(secs(HOUR + 5)).await;
    let frozen = runner(&fleet).await;
    fleet.server(frozen).freeze();
    fleet.run_for(secs(40)).await;
    assert_eq!(notes.attempts(), [1, 2]);
    fleet.server(frozen).thaw();
    fleet.run_for(secs(1)).await;
    assert_eq!(notes.going_on(), 1, "the first one was dropped when its server woke");
    fleet.run_for(secs(300)).await;
    assert_eq!(notes.attempts(), [1, 2], "nothing is left to take over");
    let successes =
        outcomes(&fleet).await.iter().filter(|outcome| **outcome == RunOutcome::Succeeded).count();
    assert_eq!(successes, 1);
}

#[tokio::test(start_paused = true)]
async fn sole_server_takes_over_the_tick_of_its_own_lost_lease() {
    let notes = Notes::new();
    let fleet = fleet(1, notes.lasting(hourly(), 120)).await;
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.going_on(), 0, "it could not be proved any longer");
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(240)).await;
    let [first, second] = &notes.starts()[..] else { panic!("{:?}", notes.starts()) };
    assert_eq!((second.tick, second.attempt), (Some(HOUR), 2));
    assert!(second.fence > first.fence);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::LeaseLost, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn sole_server_takes_over_as_soon_as_the_lost_lease_has_ended() {
    let notes = Notes::new();
    let fleet = fleet(1, notes.lasting(hourly().keep_alive(false), 120)).await;
    fleet.run_for(secs(HOUR + 100)).await;
    let at: Vec<_> = notes.starts().iter().map(|start| start.at).collect();
    assert_eq!(at, [HOUR, HOUR + 27], "a ttl is 30 s, and a tenth of it margin");
}

#[tokio::test(start_paused = true)]
async fn sole_server_takes_over_as_soon_as_the_store_is_reachable_again() {
    let notes = Notes::new();
    let fleet = fleet(1, notes.lasting(hourly(), 120)).await;
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(60)).await;
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(3)).await;
    assert_eq!((notes.attempts(), notes.going_on()), (vec![1, 2], 1));
}

#[tokio::test(start_paused = true)]
async fn lost_lease_ends_its_tick_by_default() {
    let notes = Notes::new();
    let fleet = fleet(1, notes.lasting(job("1h", 30), 120)).await;
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(60)).await;
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1]);
}

#[tokio::test(start_paused = true)]
async fn server_does_not_claim_while_its_own_run_continues_without_a_lease() {
    let notes = Notes::new();
    let stubborn = job("60s", 30).keep_alive(false).on_lost(OnLost::Continue);
    let fleet = fleet(1, notes.lasting(stubborn, 150)).await;
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(230)).await;
    assert_eq!(notes.ticks(), [60], "its lease ended at 90, its run at 210");
    assert_eq!(heard.skips(), [SkipReason::StillRunning, SkipReason::StillRunning]);
    assert!(matches!(fleet.server(0).run_now("job").await, Ok(jobs::RunNow::Ran(_))), "now it is gone");
}

#[tokio::test(start_paused = true)]
async fn manual_run_does_not_start_while_a_run_of_this_server_continues_without_a_lease() {
    let notes = Notes::new();
    let stubborn = job("1h", 30).keep_alive(false).on_lost(OnLost::Continue);
    let fleet = fleet(1, notes.lasting(stubborn, 150)).await;
    fleet.run_for(secs(HOUR + 60)).await;
    let asked = fleet.server(0).run_now("job").await.unwrap();
    assert!(matches!(asked, jobs::RunNow::Held(holder) if holder.server.as_deref() == Some("server-0")));
    assert_eq!(notes.most_at_once(), 1);
}
