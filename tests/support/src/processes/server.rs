//! The messages of a server to a store, in short.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::schedule::{Missed, Overlap};
use jobs::store::{
    Claim, ClaimDecision, ClaimPurpose, Ending, Lease, REMEMBERED, RunDetails, StoreError, TickClaim,
    WonClaim,
};
use jobs::testing::store::Client;

pub const SUCCEEDED: Ending = Ending::of(RunOutcome::Succeeded, REMEMBERED);

pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

pub fn claim_of(tick: Timestamp, ttl: Duration) -> Claim {
    let ask = TickClaim {
        tick,
        previous: None,
        delay: Duration::ZERO,
        grace: Duration::from_secs(3600),
        only_takes_over: false,
        overlap: Overlap::Queue,
        takeovers: 0,
        missed: Missed::Skip,
        schedule: "* * * * * UTC".into(),
        known_for: Duration::from_secs(3600),
    };
    Claim {
        token: format!("{:016x}", random()).into(),
        server: std::process::id().to_string().into(),
        ttl,
        what: ClaimPurpose::Tick(ask),
        remember: REMEMBERED,
        details: RunDetails::default(),
    }
}

/// A claim of the tick that is due this very microsecond.
pub fn claim_now() -> Claim {
    claim_of(Timestamp::now(), Duration::from_secs(60))
}

pub async fn win(client: &Client, key: &str) -> Lease {
    let claim = claim_now();
    match client.claim(key, &claim).await.map(|answer| answer.reply.decision) {
        Ok(ClaimDecision::Won(won)) => won.lease,
        other => panic!("expected to win {key}: {other:?}"),
    }
}

pub async fn win_and_release(client: &Client, key: &str) -> Result<Option<WonClaim>, StoreError> {
    let claim = claim_now();
    let ClaimDecision::Won(won) = client.claim(key, &claim).await?.reply.decision else { return Ok(None) };
    client.release(key, &won.lease, &SUCCEEDED).await?;
    Ok(Some(won))
}
