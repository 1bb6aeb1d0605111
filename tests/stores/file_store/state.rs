//! When a state file is written, and when it goes.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use jobs::fleet::Forgotten;
use jobs::history::History;
use jobs::store::file::FileStore;
use jobs::store::{Claim, ClaimDecision, ClaimPurpose, StoreErrorKind, TickClaim, WonClaim};
use jobs::testing::store::Client;

use support::folder::TempFolder;
use support::server::{SUCCEEDED, claim_now, claim_of, win};

const LONG: Duration = Duration::from_secs(60);

/// Dates a file back, so that a write shows.
fn age(path: &Path) -> SystemTime {
    let then = SystemTime::now() - LONG;
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    fs::metadata(path).unwrap().modified().unwrap()
}

/// The same claim by a server with another schedule, or another policy.
fn with(claim: &Claim, change: impl FnOnce(&mut TickClaim)) -> Claim {
    let mut claim = Claim { token: claim_now().token, ..claim.clone() };
    let ClaimPurpose::Tick(ask) = &mut claim.what else { panic!("a tick") };
    change(ask);
    claim
}

#[tokio::test]
async fn losing_claim_writes_only_new_information() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    let unregistered = with(&claim_now(), |ask| ask.known_for = Duration::ZERO);
    let reply = client.claim("import", &unregistered).await.unwrap().reply;
    assert_eq!(reply.decision, ClaimDecision::Unregistered);
    let elsewhere = Client::new(FileStore::open(folder.path(), None).unwrap());
    let history = elsewhere.history("import").await.unwrap().reply;
    assert!(history.registered.is_some(), "what a losing claim registers is kept");

    win(&client, "import").await;
    let state = store.state_file("import");
    let aged = age(&state);
    let tick = claim_now();
    let losers = [
        claim_of(jobs::Timestamp::now() - LONG, LONG),
        with(&tick, |ask| ask.tick = ask.tick + LONG),
        with(&tick, |_| {}),
        with(&tick, |ask| ask.schedule = "@hourly UTC".into()),
    ];
    for loser in losers {
        let reply = client.claim("import", &loser).await.unwrap().reply;
        assert!(!matches!(reply.decision, ClaimDecision::Won(_)), "{reply:?}");
        assert_eq!(fs::metadata(&state).unwrap().modified().unwrap(), aged, "written for {reply:?}");
    }
    assert!(matches!(client.forget("import", LONG).await.unwrap().reply, Forgotten::Held(_)));
    assert_eq!(fs::metadata(&state).unwrap().modified().unwrap(), aged, "written for a refusal");
    assert!(
        client.claim("import", &with(&tick, |ask| ask.overlap = jobs::schedule::Overlap::Skip)).await.is_ok()
    );
    assert_ne!(fs::metadata(&state).unwrap().modified().unwrap(), aged, "a skip is written");
}

#[tokio::test]
async fn forgotten_job_leaves_only_its_lock_file() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    // Not for a tick: until its grace is over, no job is forgotten.
    let claim = Claim { what: ClaimPurpose::Now, ..claim_now() };
    let ClaimDecision::Won(WonClaim { lease, .. }) =
        client.claim("import", &claim).await.unwrap().reply.decision
    else {
        panic!("the key is free");
    };
    client.release("import", &lease, &SUCCEEDED).await.unwrap();
    let state = store.state_file("import");
    assert!(state.exists());
    for _ in 0..2 {
        assert_eq!(client.forget("import", Duration::ZERO).await.unwrap().reply, Forgotten::Yes);
        assert!(!state.exists() && state.with_extension("lock").exists());
    }
    let elsewhere = Client::new(FileStore::open(folder.path(), None).unwrap());
    assert_eq!(elsewhere.history("import").await.unwrap().reply, History::default());
    assert!(win(&elsewhere, "import").await.fence > lease.fence);
    assert!(state.exists());
}

#[tokio::test]
async fn a_step_that_leaves_nothing_to_know_leaves_no_state_file() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    client.reset("import").await.unwrap();
    client.set_paused("import", false).await.unwrap();
    assert!(!store.state_file("import").exists());
    client.set_paused("import", true).await.unwrap();
    assert!(store.state_file("import").exists());
    client.set_paused("import", false).await.unwrap();
    assert_eq!(client.forget("import", Duration::ZERO).await.unwrap().reply, Forgotten::Yes);
    assert!(!store.state_file("import").exists());
}

/// Read as nothing, it would make ticks run again.
#[tokio::test]
async fn state_of_another_format_is_an_error_that_names_both() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    for format in [1, 4] {
        fs::write(store.state_file("import"), format!(r#"{{"format":{format},"mark":{{"tick":1800}}}}"#))
            .unwrap();
        let error = client.claim("import", &claim_now()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable);
        let expected = format!("has format {format}, and this version reads format 3");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
