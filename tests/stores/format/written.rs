//! What servers and operators do before the data is frozen: every kind of record, note and lock.

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::{FailedTry, Progress, RunOutcome, Skip, SkipRecord, Stats};
use jobs::schedule::{Missed, Overlap};
use jobs::store::{
    Action, ActionKind, Change, Claim, ClaimDecision, ClaimPurpose, DoneMark, Ending, FORMAT, FleetState,
    Gap, JobRecord, KeyState, Lease, Pause, REMEMBERED, RegisteredSchedule, RequestAnswer, RunDetails,
    RunRequest, StartedTick, Swap, SwapReply, TickClaim, TickMark, Trigger,
};
use jobs::testing::store::Client;

/// Leases of the frozen data last for decades.
pub(super) const DECADES: Duration = Duration::from_secs(70 * 365 * 86_400);
const SHORT: Duration = Duration::from_millis(50);

/// The n-th minute of 2020, whenever the tests run.
pub(super) fn tick(number: i64) -> Timestamp {
    Timestamp::from_micros(1_577_836_800_000_000 + number * 60_000_000)
}

pub(super) fn ask(number: i64) -> TickClaim {
    TickClaim {
        tick: tick(number),
        previous: None,
        delay: Duration::ZERO,
        grace: DECADES,
        only_takes_over: false,
        overlap: Overlap::Queue,
        takeovers: 0,
        missed: Missed::Skip,
        schedule: "* * * * * UTC".into(),
        known_for: DECADES,
    }
}

pub(super) fn claim(server: &str, key: &str, ttl: Duration, what: ClaimPurpose) -> Claim {
    let token = format!("token-of-{server}-for-{key}").into();
    Claim { token, server: server.into(), ttl, what, remember: REMEMBERED, details: RunDetails::default() }
}

async fn win(client: &Client, key: &str, claim: &Claim) -> Lease {
    match client.claim(key, claim).await.expect("an answer").reply.decision {
        ClaimDecision::Won(won) => won.lease,
        other => panic!("{key}: {other:?}"),
    }
}

/// Wins a tick, and its fence as the store shows it.
async fn start(client: &Client, server: &str, key: &str, ask: TickClaim) -> Lease {
    start_for(client, server, key, (DECADES, ClaimPurpose::Tick(ask))).await
}

async fn start_for(client: &Client, server: &str, key: &str, (ttl, what): (Duration, ClaimPurpose)) -> Lease {
    let lease = win(client, key, &claim(server, key, ttl, what)).await;
    let fence = client.store().look(key).await.expect("a look").fence;
    Lease { fence, ..lease }
}

async fn end(client: &Client, key: &str, lease: &Lease, outcome: RunOutcome) {
    client.release(key, lease, &Ending::of(outcome, REMEMBERED)).await.expect("a release");
}

/// Writes all keys.
pub(super) async fn write(client: &Client) {
    runs(client).await;
    unfinished(client).await;
    operators(client).await;
    locks(client).await;
    notes(client).await;
    everything(client).await;
}

async fn runs(client: &Client) {
    let running = start(client, "host-1", "running", TickClaim { takeovers: 2, ..ask(1) }).await;
    let progress = Some(Progress { done: 3, total: 10, status: "Größe 世界".to_owned() });
    client.extend("running", &Lease { progress, ..running }).await.expect("an extension");

    let lease = start(client, "host-1", "finished", ask(1)).await;
    end(client, "finished", &lease, RunOutcome::Succeeded).await;

    let lease = start(client, "host-1", "failed", ask(1)).await;
    let tried = FailedTry { number: 1, at: tick(1), error: "first error".to_owned() };
    let error = Some("second error".to_owned());
    let failed = Ending { error, failed_tries: vec![tried], ..Ending::of(RunOutcome::Failed, REMEMBERED) };
    client.release("failed", &lease, &failed).await.expect("a release");

    // A tick is skipped because the previous run is in progress.
    start(client, "host-1", "skipped", ask(1)).await;
    let skipped =
        claim("host-2", "skipped", DECADES, tick_of(TickClaim { overlap: Overlap::Skip, ..ask(2) }));
    let reply = client.claim("skipped", &skipped).await.expect("an answer").reply;
    assert!(matches!(reply.decision, ClaimDecision::Held(_)), "{reply:?}");

    let lease = start(client, "host-1", "missed", ask(1)).await;
    end(client, "missed", &lease, RunOutcome::Succeeded).await;
    gaps(client).await;
}

fn tick_of(ask: TickClaim) -> ClaimPurpose {
    ClaimPurpose::Tick(ask)
}

/// Gaps come from a schedule that is replaced: the ticks since the mark were missed.
async fn gaps(client: &Client) {
    let other = TickClaim { schedule: "0 * * * * UTC".into(), known_for: Duration::ZERO, ..ask(5) };
    let reply = client.claim("missed", &claim("host-2", "missed", DECADES, tick_of(other))).await;
    let reply = reply.expect("an answer").reply;
    assert!(matches!(reply.decision, ClaimDecision::Unregistered), "{reply:?}");
}

async fn unfinished(client: &Client) {
    // Its lease has expired without a release.
    let crashing = TickClaim { takeovers: 1, ..ask(1) };
    start_for(client, "host-1", "crashed", (SHORT, tick_of(crashing.clone()))).await;
    start_for(client, "host-1", "taken-over", (SHORT, tick_of(crashing.clone()))).await;
    tokio::time::sleep(SHORT * 3).await;
    let lease = start(client, "host-2", "taken-over", crashing).await;
    assert_eq!(lease.attempt, 2);
}

async fn operators(client: &Client) {
    let lease = start(client, "host-1", "paused", ask(1)).await;
    end(client, "paused", &lease, RunOutcome::Succeeded).await;
    client.set_paused("paused", true).await.expect("a pause");
    let reply = client.claim("paused", &claim("host-2", "paused", DECADES, tick_of(ask(2)))).await;
    assert!(matches!(reply.expect("an answer").reply.decision, ClaimDecision::Paused(_)));

    client.request("requested", "request-1", "host-3", DECADES).await.expect("a request");
    client.request("answered", "request-2", "host-3", DECADES).await.expect("a request");
    let what = ClaimPurpose::Requested("request-2".into());
    let lease = start_for(client, "host-1", "answered", (DECADES, what)).await;
    end(client, "answered", &lease, RunOutcome::Succeeded).await;

    start(client, "host-1", "cancelled", ask(1)).await;
    client.cancel("cancelled").await.expect("an answer").reply.expect("a run");
    start(client, "host-1", "broken-run", ask(1)).await;
    client.break_lock("broken-run", REMEMBERED).await.expect("an answer");
}

async fn locks(client: &Client) {
    for (key, what) in
        [("lock", ClaimPurpose::Lock), ("leader", ClaimPurpose::Leader), ("once-held", ClaimPurpose::Once)]
    {
        win(client, key, &claim("host-1", key, DECADES, what)).await;
    }
    let lease = start_for(client, "host-1", "once-done", (DECADES, ClaimPurpose::Once)).await;
    let done = Ending { done_for: Some(DECADES), ..Ending::of(RunOutcome::Succeeded, REMEMBERED) };
    client.release("once-done", &lease, &done).await.expect("a release");
    for server in ["host-1", "host-2"] {
        win(client, "semaphore", &claim(server, "semaphore", DECADES, ClaimPurpose::Slot(3))).await;
    }
    win(client, "broken-lock", &claim("host-1", "broken-lock", DECADES, ClaimPurpose::Lock)).await;
    client.break_lock("broken-lock", REMEMBERED).await.expect("an answer");
}

async fn notes(client: &Client) {
    let about = r#"{"id":"host-1","started":1577836800000000,"announced":1577836860000000,"version":"0.1.0","jobs":[{"key":"running","hash":"0123456789abcdef"}],"clock_ahead_micros":-5,"running":[{"key":"running","fence":7}]}"#;
    client.announce("host-1", about, DECADES).await.expect("a heartbeat");
}

/// A state in which every field is set, whether or not a key comes to have all of them.
pub(super) fn full_state() -> KeyState {
    let lease = |server: &str, fence| Lease {
        request: Some("request-3".into()),
        trigger: Trigger::Takeover,
        details: RunDetails { by: Some("anna".into()), app_version: Some("1.2.3".into()), pause_after: 5 },
        progress: Some(Progress { done: 1, total: 2, status: "\"quoted\" 🎉".to_owned() }),
        attempt: 2,
        takeovers: 3,
        fence,
        reported: Some(tick(3)),
        ..Lease::claimed(&claim(server, "everything", DECADES, ClaimPurpose::Slot(3)), tick(1), tick(2))
    };
    let pause = Pause {
        by: "anna".into(),
        reason: Some("the supplier is down".into()),
        since: tick(1),
        until: Some(tick(2)),
        all: true,
    };
    let action = Action {
        at: tick(1),
        by: "anna".into(),
        what: ActionKind::Pause,
        key: Some("everything".into()),
        note: Some("the supplier is down".into()),
    };
    KeyState {
        format: FORMAT,
        claimant: Some(lease("host-1", 0)),
        released: true,
        broken_by: Some("host-2".into()),
        cancelled_by: Some("host-3".into()),
        started: Some(StartedTick { tick: tick(1), attempt: 2, finished: true, takeovers: 3 }),
        mark: Some(TickMark { tick: tick(2), skip: Some(Skip::Held), server: "host-2".into(), at: tick(2) }),
        claimable_until: Some(tick(4)),
        pause: Some(pause.clone()),
        registered: Some(RegisteredSchedule {
            schedule: "0 3 * * * Europe/Berlin".into(),
            at: tick(1),
            server: "host-1".into(),
            begun: tick(0),
            used: tick(2),
            runs_missed_since: Some(tick(1)),
        }),
        request: Some(RunRequest {
            id: "request-3".to_owned(),
            by: "host-3".to_owned(),
            until: tick(9),
            answer: Some(RequestAnswer::Held { server: None }),
        }),
        missed: vec![Gap { after: tick(3), before: tick(5), schedule: Some("@hourly UTC".into()) }],
        reset_fence: Some(11),
        stats: Stats {
            runs: 9,
            failures: 2,
            successes: 7,
            total_micros: 700,
            longest_micros: 200,
            last_success: Some(tick(2)),
            failures_in_row: 1,
        },
        done: Some(DoneMark { at: tick(1), until: tick(8) }),
        broken_until: Some(tick(7)),
        slots: vec![lease("host-1", 5), lease("host-2", 0)],
        slots_since: tick(0),
        fleet: Some(Arc::new(FleetState { pause: Some(pause), actions: vec![action] })),
        expires: None,
    }
}

async fn everything(client: &Client) {
    let skip = SkipRecord::new(tick(2), Skip::Paused, "host-1", tick(3));
    let change = Change {
        state: Some(Arc::new(full_state())),
        records: vec![JobRecord::Skip(skip)],
        keep: REMEMBERED,
        ..Change::default()
    };
    let swap = Swap { expected: None, expected_lock: None, nonce: 7, change };
    let reply = client.store().swap("everything", &swap).await.expect("an answer");
    assert!(matches!(reply, SwapReply::Swapped(_)), "{reply:?}");
}
