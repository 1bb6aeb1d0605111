//! Pauses: who, why, until when, of one job or of all.

use std::time::Duration;

use crate::fleet::Pause;
use crate::history::{Progress, RunOutcome, Skip, Trigger};
use crate::store::{
    Action, ActionKind, Claim, ClaimDecision, Ending, Look, PauseOrder, RunDetails, TickClaim, decide,
};
use crate::testing::store::bench::{Bench, LONG, SHORT, ask, claim, claim_now, claim_requested, claim_with};

use super::super::{START, bench};

const MINUTE: Duration = Duration::from_secs(60);

fn order(reason: &str) -> PauseOrder {
    PauseOrder { by: "anna".into(), reason: Some(reason.into()), lasts: None, all: false }
}

async fn pause(bench: &Bench, order: &PauseOrder) -> Pause {
    bench.client.pause(&bench.key, order).await.expect("pause").reply
}

async fn resume(bench: &Bench, all: bool) -> Option<Pause> {
    bench.client.resume(&bench.key, all).await.expect("resume").reply
}

#[tokio::test(start_paused = true)]
async fn pause_has_who_why_since_and_until() {
    let bench = bench();
    let now = bench.look().await.now;
    let paused = pause(&bench, &PauseOrder { lasts: Some(MINUTE), ..order("supplier") }).await;
    assert_eq!((&*paused.by, paused.reason.as_deref(), paused.all), ("anna", Some("supplier"), false));
    assert!(paused.since >= now && paused.until.is_some_and(|until| until >= paused.since + MINUTE));
    assert_eq!(bench.history().await.pause, Some(paused.clone()));
    let tick = bench.tick_ago(SHORT).await;
    assert_eq!(bench.claim(&claim("b", tick)).await, ClaimDecision::Paused(paused.clone()));
    let skip = &bench.history().await.skips[0];
    assert_eq!((skip.reason, &skip.pause), (Skip::Paused, &Some(paused)));
}

#[tokio::test(start_paused = true)]
async fn another_order_replaces_the_reason_and_the_end_and_keeps_the_begin() {
    let bench = bench();
    let first = pause(&bench, &PauseOrder { lasts: Some(MINUTE), ..order("first") }).await;
    tokio::time::sleep(SHORT).await;
    let second = pause(&bench, &order("second")).await;
    assert_eq!(second, Pause { reason: Some("second".into()), until: None, ..first });
}

#[tokio::test(start_paused = true)]
async fn pause_ends_by_itself_and_its_ticks_do_not_run() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.finish(&claim("a", tick)).await;
    let paused = pause(&bench, &PauseOrder { lasts: Some(MINUTE), ..order("a minute") }).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    let skipped = bench.tick_ago(SHORT).await;
    assert!(matches!(bench.claim(&claim("a", skipped)).await, ClaimDecision::Paused(_)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.history().await.pause, None);
    let after = bench.tick_ago(SHORT).await;
    bench.win(&claim("a", after)).await;
    let state = bench.look().await.state;
    assert_eq!((&state.pause, state.registered.as_ref().map(|it| it.at)), (&None, paused.until));
    assert_eq!(resume(&bench, false).await, None);
}

#[tokio::test(start_paused = true)]
async fn server_that_finds_the_tick_decided_writes_nothing_after_a_pause() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    pause(&bench, &PauseOrder { lasts: Some(MINUTE), ..order("a minute") }).await;
    assert!(matches!(bench.claim(&claim("a", tick)).await, ClaimDecision::Paused(_)));
    tokio::time::sleep(2 * MINUTE).await;
    let version = bench.look().await.version;
    assert!(matches!(bench.claim(&claim("b", tick)).await, ClaimDecision::Taken(_)));
    assert_eq!(bench.look().await.version, version);
}

#[tokio::test(start_paused = true)]
async fn job_that_was_paused_alone_stays_so_when_all_are_paused_and_resumed() {
    let bench = bench();
    let own = pause(&bench, &order("own")).await;
    let all = PauseOrder { all: true, ..order("all") };
    assert_eq!(pause(&bench, &all).await, own);
    assert_eq!(resume(&bench, true).await, None);
    assert_eq!(bench.history().await.pause, Some(own.clone()));
    assert_eq!(resume(&bench, false).await, Some(own));
    let of_all = pause(&bench, &all).await;
    assert!(of_all.all);
    assert_eq!(resume(&bench, true).await, Some(of_all));
    assert_eq!(bench.history().await.pause, None);
}

fn pausing(of: Claim) -> Claim {
    let details = RunDetails { pause_after: 2, app_version: Some("1.2".into()), ..RunDetails::default() };
    Claim { details, ..of }
}

async fn fail(bench: &Bench, error: &str) {
    let lease = bench.win(&pausing(claim_now("a", LONG))).await;
    let ending = Ending { error: Some(error.to_owned()), ..Ending::of(RunOutcome::Failed, 100) };
    bench.release_with(&lease, &ending).await;
}

#[tokio::test(start_paused = true)]
async fn job_is_paused_after_so_many_failures_in_a_row() {
    let bench = bench();
    fail(&bench, "one").await;
    bench.finish(&pausing(claim_now("a", LONG))).await;
    fail(&bench, "two").await;
    assert_eq!(bench.history().await.pause, None, "a success is in between");
    fail(&bench, "three").await;
    let paused = bench.history().await.pause.expect("two failures in a row");
    assert_eq!((&*paused.by, paused.reason.as_deref()), ("a", Some("2 failures in a row, the last: three")));
    assert_eq!(resume(&bench, false).await, Some(paused));
    fail(&bench, "four").await;
    assert_eq!(bench.history().await.pause, None, "a resumption begins anew");
}

#[tokio::test(start_paused = true)]
async fn only_a_failure_pauses_the_job_and_replaces_no_other_pause() {
    let bench = bench();
    for _ in 0..2 {
        let without_limit = bench.win(&claim_now("a", LONG)).await;
        bench.release(&without_limit, RunOutcome::Failed).await;
    }
    let cancelled = bench.win(&pausing(claim_now("a", LONG))).await;
    bench.release(&cancelled, RunOutcome::Cancelled).await;
    assert_eq!(bench.history().await.pause, None);
    let own = pause(&bench, &order("own")).await;
    fail(&bench, "three").await;
    assert_eq!(bench.history().await.pause, Some(own));
}

#[tokio::test(start_paused = true)]
async fn crash_that_pauses_the_job_skips_the_next_tick() {
    let bench = bench();
    fail(&bench, "one").await;
    let crashed = bench.win(&pausing(claim_now("a", SHORT))).await;
    bench.outlive(&crashed).await;
    let tick = bench.tick_ago(SHORT).await;
    let ClaimDecision::Paused(paused) = bench.claim(&pausing(claim("b", tick))).await else {
        panic!("two failures in a row")
    };
    assert_eq!(paused.reason.as_deref(), Some("2 failures in a row, the last: crashed"));
    let history = bench.history().await;
    assert_eq!(
        history.runs.iter().map(|run| run.outcome).collect::<Vec<_>>(),
        [RunOutcome::Crashed, RunOutcome::Failed]
    );
    bench.win(&claim_now("b", LONG)).await;
    assert_eq!(bench.history().await.runs.len(), 2, "it is recorded once");
}

#[tokio::test(start_paused = true)]
async fn run_in_progress_is_no_crash_that_pauses_the_job() {
    let bench = bench();
    fail(&bench, "one").await;
    bench.win(&pausing(claim_now("a", LONG))).await;
    let tick = bench.tick_ago(SHORT).await;
    assert!(matches!(bench.claim(&pausing(claim("b", tick))).await, ClaimDecision::Held(_)));
    assert_eq!(bench.history().await.pause, None);
}

#[tokio::test(start_paused = true)]
async fn skip_shows_the_run_that_was_in_the_way() {
    let bench = bench();
    let first = bench.tick_ago(2 * SHORT).await;
    let lease = bench.win(&claim("a", first)).await;
    let second = bench.tick_ago(Duration::ZERO).await;
    tokio::time::sleep(SHORT).await;
    bench.claim(&claim("b", second)).await;
    let holder = bench.history().await.skips[0].holder.clone().expect("a holder");
    assert_eq!(
        (holder.server.as_deref(), holder.since, holder.tick),
        (Some("a"), Some(lease.since), Some(first))
    );
}

#[tokio::test(start_paused = true)]
async fn run_shows_its_trigger_who_asked_and_the_version() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.finish(&pausing(claim("a", tick))).await;
    let run = bench.newest_run().await;
    assert_eq!((run.trigger, run.by, run.app_version.as_deref()), (Trigger::Schedule, None, Some("1.2")));
    bench.request("id", LONG).await;
    bench.finish(&claim_requested("a", "id")).await;
    let run = bench.newest_run().await;
    assert_eq!((run.trigger, run.by.as_deref()), (Trigger::Manual, Some("asker")));
    let mut lease = bench.win(&claim_now("a", LONG)).await;
    lease.progress = Some(Progress::default());
    assert_eq!(bench.cancel().await.and_then(|run| run.cancelled_by).as_deref(), Some("client"));
    bench.release(&lease, RunOutcome::Cancelled).await;
    assert_eq!(bench.newest_run().await.stopped_by.as_deref(), Some("client"));
}

fn apply(look: &Look, change: Option<crate::store::Change>) -> Look {
    let state = change.expect("a change").state.expect("a state");
    Look { state, version: look.version, ..look.clone() }
}

#[test]
fn actions_are_kept_newest_first_and_not_without_end() {
    let mut look = Look::nothing(crate::Timestamp::from_micros(7));
    for number in 0..300 {
        let key = Some(number.to_string().into());
        let what = ActionKind::Cancel;
        let action =
            Action { at: crate::Timestamp::from_micros(0), by: "anna".into(), what, key, note: None };
        let decision = decide::note_action(&look, &action, number % 2 == 0);
        assert_eq!(decision.change.as_ref().map(|change| change.notify), Some(number % 2 == 0));
        look = apply(&look, decision.change);
    }
    let actions = &look.state.fleet.as_ref().expect("a list").actions;
    assert_eq!((actions.len(), actions[0].key.as_deref(), actions[0].at), (200, Some("299"), look.now));
    let paused = decide::pause_fleet(&look, &order("all"));
    look = apply(&look, paused.change);
    assert_eq!(look.state.fleet.as_ref().map(|fleet| fleet.actions.len()), Some(200));
    assert_eq!(decide::resume_fleet(&look).reply, Some(paused.reply));
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn sleep_until(bench: &Bench, seconds: u64) {
    tokio::time::sleep((START + secs(seconds)).since(bench.now().await)).await;
}

/// A job whose tick at the start has run.
async fn job_that_ran() -> Bench {
    let bench = bench();
    sleep_until(&bench, 1).await;
    bench.finish(&claim("a", START)).await;
    bench
}

#[tokio::test(start_paused = true)]
async fn delayed_tick_of_a_pause_that_is_over_is_missed_and_does_not_run() {
    let bench = job_that_ran().await;
    sleep_until(&bench, 3590).await;
    pause(&bench, &PauseOrder { lasts: Some(secs(11)), ..order("a moment") }).await;
    sleep_until(&bench, 3605).await;
    let tick = START + secs(3600);
    let delayed = TickClaim { delay: secs(5), previous: Some(START), ..ask(tick) };
    let reply = bench.claim(&claim_with("a", LONG, delayed)).await;
    assert!(!matches!(reply, ClaimDecision::Won(_)), "{reply:?}");
    let skips: Vec<_> = bench.history().await.skips.iter().map(|skip| (skip.tick, skip.reason)).collect();
    assert_eq!(skips, [(tick, Skip::Missed)]);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_pause_before_a_deploy_does_not_make_older_ticks_known() {
    let bench = job_that_ran().await;
    pause(&bench, &PauseOrder { lasts: Some(secs(600)), ..order("ten minutes") }).await;
    sleep_until(&bench, 5410).await;
    let schedule = "30 * * * * UTC".into();
    let ask = TickClaim { known_for: Duration::ZERO, schedule, ..ask(START + secs(5400)) };
    assert_eq!(bench.claim(&claim_with("new", LONG, ask)).await, ClaimDecision::Unregistered);
    let state = bench.look().await.state;
    assert!(state.missed.iter().all(|gap| gap.after < gap.before), "{:?}", state.missed);
}

#[tokio::test(start_paused = true)]
async fn tick_that_a_new_schedule_shares_with_the_old_one_is_not_missed() {
    let bench = job_that_ran().await;
    let tick = START + secs(3600);
    sleep_until(&bench, 3601).await;
    let ask = TickClaim { known_for: secs(60), schedule: "*/30 * * * * UTC".into(), ..ask(tick) };
    let won = bench.won(&claim_with("new", LONG, ask)).await;
    assert_eq!(won.lease.tick, Some(tick));
    assert!(won.missed.iter().all(|gap| gap.before <= tick), "{:?}", won.missed);
    assert_eq!(bench.history().await.skips, []);
}

#[tokio::test(start_paused = true)]
async fn takeover_decides_whether_a_tick_has_failed() {
    let once = |of: Claim| Claim { details: RunDetails { pause_after: 1, ..RunDetails::default() }, ..of };
    for outcome in [RunOutcome::Succeeded, RunOutcome::Failed] {
        let bench = bench();
        sleep_until(&bench, 1).await;
        let ask = TickClaim { takeovers: 1, ..ask(START) };
        let crashed = bench.win(&once(claim_with("a", SHORT, ask.clone()))).await;
        bench.outlive(&crashed).await;
        let second = bench.win(&once(claim_with("b", LONG, ask))).await;
        assert_eq!((second.attempt, second.trigger), (2, Trigger::Takeover));
        assert_eq!(bench.history().await.pause, None);
        bench.release(&second, outcome).await;
        assert_eq!(bench.history().await.pause.is_some(), outcome == RunOutcome::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_before_a_pause_that_is_over_do_not_count() {
    let bench = bench();
    fail(&bench, "one").await;
    pause(&bench, &PauseOrder { lasts: Some(MINUTE), ..order("a minute") }).await;
    tokio::time::sleep(2 * MINUTE).await;
    fail(&bench, "two").await;
    assert_eq!(bench.history().await.pause, None);
}
