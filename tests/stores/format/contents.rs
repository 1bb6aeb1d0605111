//! What is read from the data, by every version that reads its format.

use std::collections::BTreeMap;
use std::time::Duration;

use jobs::Timestamp;
use jobs::events::Taken;
use jobs::fleet::LeaseKind;
use jobs::history::{RunOutcome, Skip};
use jobs::store::{
    Claim, ClaimDecision, ClaimPurpose, Ending, ExtendReply, Lease, REMEMBERED, ReleaseReply, RequestAnswer,
    TickClaim, Topic,
};
use jobs::testing::store::Client;

use super::data::{Data, FOREIGN};
use super::written::{DECADES, ask, claim, full_state, tick};

pub(super) const LONG: Duration = Duration::from_secs(60);

/// All keys, as their records are named.
pub(super) const KEYS: [&str; 18] = [
    "running",
    "finished",
    "failed",
    "skipped",
    "missed",
    "crashed",
    "taken-over",
    "paused",
    "requested",
    "answered",
    "cancelled",
    "broken-run",
    "lock",
    "leader",
    "once-held",
    "once-done",
    "broken-lock",
    "everything",
];

/// A claim of the tick after all others.
pub(super) fn next_claim() -> Claim {
    claim("host-9", "next", LONG, ClaimPurpose::Tick(ask(9)))
}

/// Checks what the data says.
pub(super) async fn check(data: &Data, fences: &BTreeMap<String, i64>) {
    let client = Client::of(data.store());
    assert_eq!(fences.len(), KEYS.len() + 1, "{:?}", fences.keys());
    for (key, fence) in fences {
        let look = client.store().look(key).await.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!((look.fence, look.version.is_some()), (*fence, true), "{key}");
        // No lease of these was ever won.
        let has_lease = !["everything", "requested"].contains(&key.as_str());
        assert!(!has_lease || *fence > 1_700_000_000_000_000, "{key} has the fence {fence}");
    }
    check_runs(&client, fences).await;
    check_operators(&client).await;
    check_locks(&client, fences).await;
    let everything = client.store().look("everything").await.expect("a look");
    assert_eq!(*everything.state, full_state());
    let records = client.store().records(&["everything".to_owned()], usize::MAX).await.expect("records");
    let [skip] = &records[0].skips[..] else {
        panic!("one skip");
    };
    assert_eq!((skip.tick, skip.reason, skip.at), (tick(2), Skip::Paused, tick(3)));
    let servers = client.servers().await.expect("the servers").reply;
    let [server] = &servers[..] else { panic!("{servers:?}") };
    assert_eq!((server.id.as_str(), server.announced, server.clock_ahead_micros), ("host-1", tick(1), -5));
    assert_eq!((server.jobs[0].key.as_str(), server.running[0].fence), ("running", 7));
    let requests = client.store().notes(Topic::Requests).await.expect("the requests").notes;
    let requests: Vec<_> = requests.iter().map(|note| (note.name.as_str(), &*note.text)).collect();
    assert_eq!(requests, [("answered", "request-2"), ("requested", "request-1")]);
}

async fn check_runs(client: &Client, fences: &BTreeMap<String, i64>) {
    let history = async |key: &str| client.history(key).await.expect("a history").reply;
    let running = history("running").await;
    let run = running.current.expect("a run in progress");
    assert_eq!((run.tick, run.server.as_str(), run.attempt), (Some(tick(1)), "host-1", 1));
    assert_eq!(run.fence, fences["running"]);
    assert_eq!(
        run.progress.map(|progress| (progress.done, progress.status)),
        Some((3, "Größe 世界".to_owned()))
    );
    assert!(run.until > Timestamp::now() + DECADES / 2);
    assert_eq!(running.registered.expect("a schedule").schedule.as_ref(), "* * * * * UTC");

    let finished = history("finished").await;
    let [run] = &finished.runs[..] else { panic!("{finished:?}") };
    assert_eq!(
        (run.outcome, run.tick, run.fence),
        (RunOutcome::Succeeded, Some(tick(1)), fences["finished"])
    );
    assert_eq!((finished.stats.runs, finished.stats.successes, finished.current), (1, 1, None));

    let failed = history("failed").await;
    let [run] = &failed.runs[..] else { panic!("{failed:?}") };
    assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Failed, Some("second error")));
    assert_eq!((run.failed_tries[0].at, run.failed_tries[0].error.as_str()), (tick(1), "first error"));
    assert_eq!(failed.stats.failures, 1);

    let skipped = history("skipped").await;
    assert_eq!((skipped.skips[0].tick, skipped.skips[0].reason), (tick(2), Skip::Held));
    let mark = client.store().look("skipped").await.expect("a look").state.mark.clone().expect("a mark");
    assert_eq!((mark.tick, mark.skip, &*mark.server), (tick(2), Some(Skip::Held), "host-2"));
    let missed = client.store().look("missed").await.expect("a look").state.missed.clone();
    assert_eq!((missed.len(), missed[0].schedule.as_deref()), (1, Some("* * * * * UTC")));

    let crashed = history("crashed").await;
    assert_eq!((crashed.runs[0].outcome, crashed.runs[0].fence), (RunOutcome::Crashed, fences["crashed"]));
    let taken = history("taken-over").await;
    assert_eq!(taken.current.map(|run| (run.attempt, run.server)), Some((2, "host-2".to_owned())));
    assert_eq!(taken.runs[0].outcome, RunOutcome::Crashed);
}

async fn check_operators(client: &Client) {
    let history = async |key: &str| client.history(key).await.expect("a history").reply;
    let paused = history("paused").await;
    assert_eq!((paused.pause.is_some(), paused.skips[0].reason), (true, Skip::Paused));
    let request = history("requested").await.request.expect("a request");
    assert_eq!((request.id.as_str(), request.by.as_str(), request.answer), ("request-1", "host-3", None));
    let answered = history("answered").await;
    let started = RequestAnswer::Started { server: "host-1".to_owned() };
    assert_eq!(answered.request.expect("a request").answer, Some(started));
    assert_eq!((answered.runs[0].tick, answered.runs[0].request.as_deref()), (None, Some("request-2")));
    let cancelled = client.store().look("cancelled").await.expect("a look");
    assert_eq!(cancelled.state.cancelled_by.as_deref(), Some("client"));
    assert_eq!(history("broken-run").await.runs[0].outcome, RunOutcome::Broken);
}

async fn check_locks(client: &Client, fences: &BTreeMap<String, i64>) {
    let held = client.locks().await.expect("the locks").reply;
    let holders = |key: &str| held.iter().filter(|held| held.key == key).collect::<Vec<_>>();
    for (key, kind) in
        [("lock", LeaseKind::Lock), ("leader", LeaseKind::Leader), ("once-held", LeaseKind::Once)]
    {
        let [holder] = holders(key)[..] else { panic!("{key}: {held:?}") };
        assert_eq!((holder.kind, holder.fence), (Some(kind), Some(fences[key])), "{key}");
        assert_eq!(holder.holder.server.as_deref(), Some("host-1"), "{key}");
    }
    let slots = holders("semaphore");
    let servers: Vec<_> = slots.iter().map(|slot| slot.holder.server.as_deref()).collect();
    assert_eq!(servers, [Some("host-1"), Some("host-2")]);
    assert!(slots[0].fence < slots[1].fence && slots[1].fence == Some(fences["semaphore#slots"]));
    let done = client.store().look("once-done").await.expect("a look").state.done.expect("a done mark");
    assert!(done.until > done.at + DECADES / 2);
    assert!(holders("broken-lock").is_empty() && holders("finished").is_empty());
}

/// The lease of a server that is still running, as it knows it.
async fn lease_of(client: &Client, key: &str) -> Lease {
    let look = client.store().look(key).await.expect("a look");
    let lease = look.state.claimant.clone().expect("a lease");
    Lease { fence: look.fence, ..lease }
}

/// Checks that ticks are not started again, fences grow, and holders keep what they hold.
pub(super) async fn check_that_the_fleet_continues(data: &Data) {
    let client = Client::of(data.store());
    let ended = Ending::of(RunOutcome::Succeeded, REMEMBERED);
    let decide = async |key: &str, what: ClaimPurpose| {
        let claim = claim("host-9", key, LONG, what);
        client.claim(key, &claim).await.unwrap_or_else(|error| panic!("{key}: {error}")).reply.decision
    };
    let tick_claim = |number| ClaimPurpose::Tick(ask(number));

    for key in ["running", "finished", "failed", "cancelled", "broken-run"] {
        let reply = decide(key, tick_claim(1)).await;
        assert!(matches!(reply, ClaimDecision::Taken(Taken::Started { .. })), "{key}: {reply:?}");
    }
    for key in ["skipped", "paused"] {
        let reply = decide(key, tick_claim(2)).await;
        assert!(matches!(reply, ClaimDecision::Taken(Taken::Skipped(_))), "{key}: {reply:?}");
        let reply = decide(key, tick_claim(1)).await;
        assert!(matches!(reply, ClaimDecision::Superseded(mark) if mark == tick(2)), "{key}: {reply:?}");
    }
    for key in ["running", "skipped", "taken-over", "cancelled"] {
        let reply = decide(key, tick_claim(9)).await;
        assert!(matches!(reply, ClaimDecision::Held(_)), "{key}: {reply:?}");
        let lease = lease_of(&client, key).await;
        let kept = client.extend(key, &lease).await.expect("an extension").reply;
        assert!(matches!(kept, ExtendReply::Kept { .. }), "{key}: {kept:?}");
        let released = client.release(key, &lease, &ended).await.expect("a release").reply;
        assert_eq!(released, ReleaseReply::Released, "{key}");
    }
    for key in ["running", "finished", "failed", "skipped", "missed", "taken-over", "cancelled", "broken-run"]
    {
        let before = client.store().look(key).await.expect("a look").fence;
        let ClaimDecision::Won(won) = decide(key, tick_claim(10)).await else { panic!("{key} is free") };
        assert_eq!((won.lease.attempt, won.lease.tick), (1, Some(tick(10))), "{key}");
        assert!(client.store().look(key).await.expect("a look").fence > before, "{key}");
        assert_eq!(key == "missed", !won.missed.is_empty(), "{key}: {:?}", won.missed);
    }
    let takeover = ClaimPurpose::Tick(TickClaim { takeovers: 1, only_takes_over: true, ..ask(1) });
    let ClaimDecision::Won(won) = decide("crashed", takeover).await else { panic!("nothing to take over") };
    assert_eq!(won.lease.attempt, 2);
    assert!(matches!(decide("paused", tick_claim(11)).await, ClaimDecision::Paused(_)));
    let requested = decide("requested", ClaimPurpose::Requested("request-1".into())).await;
    assert!(matches!(requested, ClaimDecision::Won(_)), "{requested:?}");
    let answered = decide("answered", ClaimPurpose::Requested("request-2".into())).await;
    assert!(matches!(answered, ClaimDecision::NotRequested), "{answered:?}");
    check_that_locks_last(&client, &ended).await;
    if matches!(data, Data::Redis(_)) {
        let reply = decide(FOREIGN, ClaimPurpose::Lock).await;
        assert!(matches!(&reply, ClaimDecision::Held(holder) if holder.server.is_none()), "{reply:?}");
    }
}

async fn check_that_locks_last(client: &Client, ended: &Ending) {
    let decide = async |server: &str, key: &str, what: ClaimPurpose| {
        client.claim(key, &claim(server, key, LONG, what)).await.expect("an answer").reply.decision
    };
    for key in ["lock", "leader", "once-held"] {
        let reply = decide("host-9", key, ClaimPurpose::Lock).await;
        assert!(matches!(reply, ClaimDecision::Held(_)), "{key}: {reply:?}");
        let lease = lease_of(client, key).await;
        client.release(key, &lease, ended).await.expect("a release");
        let before = lease.fence;
        let reply = decide("host-9", key, ClaimPurpose::Lock).await;
        assert!(matches!(reply, ClaimDecision::Won(_)), "{key}: {reply:?}");
        assert!(client.store().look(key).await.expect("a look").fence > before, "{key}");
    }
    let done = decide("host-9", "once-done", ClaimPurpose::Once).await;
    assert!(matches!(done, ClaimDecision::Done(_)), "{done:?}");
    let third = decide("host-8", "semaphore", ClaimPurpose::Slot(3)).await;
    assert!(matches!(third, ClaimDecision::Won(_)), "{third:?}");
    let fourth = decide("host-9", "semaphore", ClaimPurpose::Slot(3)).await;
    assert!(matches!(fourth, ClaimDecision::Held(_)), "{fourth:?}");
    let broken = lease_of(client, "broken-lock").await;
    let lost = client.extend("broken-lock", &broken).await.expect("an answer").reply;
    assert!(matches!(lost, ExtendReply::Lost { broken_by: Some(_) }), "{lost:?}");
}
