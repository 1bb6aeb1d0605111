//! Manual runs that are requested by a server without the job.

use crate::history::RunOutcome;
use crate::store::{ClaimDecision, Note, RequestAnswer, RunRequest};

use super::fleet::announce;
use crate::store::decide::tests::{bench, subject};
use crate::testing::store::bench::{Bench, LONG, MOMENT, SHORT, claim, claim_now, claim_requested, holder};

async fn answer(bench: &Bench) -> Option<RequestAnswer> {
    bench.history().await.request.expect("a request").answer
}

/// What a server is told that announces itself.
async fn hints(bench: &Bench) -> Vec<Note> {
    announce(&bench.client, "d", LONG).await
}

fn hint(bench: &Bench, id: &str) -> Note {
    Note { name: bench.key.clone(), text: id.into() }
}

#[tokio::test(start_paused = true)]
async fn request_is_kept_until_it_is_taken_up() {
    let bench = bench();
    let before = bench.now().await;
    let request = bench.request("one", LONG).await;
    let after = bench.now().await;
    let (id, by) = ("one".to_owned(), "asker".to_owned());
    assert_eq!(request, RunRequest { id, by, until: request.until, answer: None });
    assert!(request.until >= before + LONG && request.until <= after + LONG, "{request:?}");
    assert_eq!(bench.history().await.request, Some(request));
}

#[tokio::test(start_paused = true)]
async fn request_is_taken_up_by_one_server_only() {
    let bench = bench();
    bench.request("one", LONG).await;
    let first = claim_requested("a", "one");
    let lease = bench.win(&first).await;
    assert_eq!((lease.tick, lease.attempt), (None, 1));
    let started = Some(RequestAnswer::Started { server: "a".to_owned() });
    assert_eq!(answer(&bench).await, started);

    assert_eq!(bench.win(&first).await, lease, "a repeated claim has won already");
    assert_eq!(bench.claim(&claim_requested("b", "one")).await, ClaimDecision::NotRequested);
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(bench.claim(&claim_requested("b", "one")).await, ClaimDecision::NotRequested);
    assert_eq!(answer(&bench).await, started);
    assert_eq!(bench.history().await.stats.runs, 1);
}

#[tokio::test(start_paused = true)]
async fn run_that_was_not_requested_is_not_started() {
    let bench = bench();
    assert_eq!(bench.claim(&claim_requested("a", "one")).await, ClaimDecision::NotRequested);
    bench.request("one", LONG).await;
    assert_eq!(bench.claim(&claim_requested("a", "other")).await, ClaimDecision::NotRequested);
    bench.win(&claim_requested("a", "one")).await;
}

#[tokio::test(start_paused = true)]
async fn expired_request_is_neither_announced_nor_taken_up() {
    let bench = bench();
    let lasting = bench.on("lasting");
    lasting.request("lasting", LONG).await;
    assert_eq!(bench.request("one", SHORT).await.id, "one");
    tokio::time::sleep(SHORT + MOMENT).await;
    assert_eq!(hints(&bench).await, [hint(&lasting, "lasting")]);
    assert_eq!(bench.claim(&claim_requested("a", "one")).await, ClaimDecision::NotRequested);
    assert_eq!(bench.request("two", LONG).await.id, "two");
    assert!(hints(&bench).await.contains(&hint(&bench, "two")), "a new request is told");
}

#[tokio::test(start_paused = true)]
async fn request_for_a_held_key_is_answered() {
    let bench = bench();
    let holding = bench.win(&claim_now("a", LONG)).await;
    bench.request("one", LONG).await;
    let held = holder(bench.claim(&claim_requested("b", "one")).await);
    assert_eq!(held.server.as_deref(), Some("a"));
    assert_eq!(answer(&bench).await, Some(RequestAnswer::Held { server: Some("a".to_owned()) }));
    bench.release(&holding, RunOutcome::Succeeded).await;
    assert_eq!(bench.claim(&claim_requested("b", "one")).await, ClaimDecision::NotRequested);
}

#[tokio::test(start_paused = true)]
async fn request_for_a_key_under_a_foreign_lock_is_answered() {
    let bench = bench();
    bench.request("one", LONG).await;
    bench.foreign_lock(LONG).await;
    holder(bench.claim(&claim_requested("b", "one")).await);
    assert_eq!(answer(&bench).await, Some(RequestAnswer::Held { server: None }));
}

#[tokio::test(start_paused = true)]
async fn second_request_returns_the_one_that_waits() {
    let bench = bench();
    let first = bench.request("one", LONG).await;
    assert_eq!(bench.request("two", SHORT).await, first);
    tokio::time::sleep(SHORT + MOMENT).await;
    assert_eq!(hints(&bench).await, [hint(&bench, "one")], "the second one's end is not the first one's");
    let lease = bench.win(&claim_requested("a", "one")).await;
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(bench.request("three", LONG).await.id, "three");
    bench.win(&claim_requested("a", "three")).await;
}

#[tokio::test(start_paused = true)]
async fn paused_job_can_be_requested() {
    let bench = bench();
    bench.pause(true).await;
    bench.request("one", LONG).await;
    bench.win(&claim_requested("a", "one")).await;
}

#[tokio::test(start_paused = true)]
async fn requested_run_consumes_no_tick() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.request("one", LONG).await;
    bench.finish(&claim_requested("a", "one")).await;
    bench.win(&claim("b", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn requested_run_that_was_not_started_waits_again() {
    let bench = bench();
    let request = bench.request("one", LONG).await;
    let given_back = bench.win(&claim_requested("a", "one")).await;
    bench.release(&given_back, RunOutcome::NotStarted).await;
    assert_eq!(bench.history().await.request, Some(request));
    bench.finish(&claim_requested("b", "one")).await;

    // Only the run that the request started can give it back.
    let by_hand = bench.win(&claim_now("a", LONG)).await;
    bench.release(&by_hand, RunOutcome::NotStarted).await;
    bench.release(&given_back, RunOutcome::NotStarted).await;
    let started = RequestAnswer::Started { server: "b".to_owned() };
    assert_eq!(answer(&bench).await, Some(started));
}

#[tokio::test(start_paused = true)]
async fn every_announcement_returns_every_request() {
    let subject = &subject();
    let (one, other) = (Bench::with_key(subject, "one"), Bench::with_key(subject, "Etl/Other"));
    one.request("r1", LONG).await;
    other.request("r2", LONG).await;
    for _ in 0..2 {
        let mut told = hints(&one).await;
        told.sort_by(|a, b| a.text.cmp(&b.text));
        assert_eq!(told, [hint(&one, "r1"), hint(&other, "r2")]);
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_requests_of_their_own() {
    let subject = &subject();
    let bench = Bench::of(subject);
    bench.request("one", LONG).await;
    assert_eq!(announce(&Bench::in_namespace(subject, "elsewhere").client, "d", LONG).await, []);
    assert_eq!(hints(&bench).await, [hint(&bench, "one")]);
}
