//! Effects of runs, where the store is a database: each is committed with the end of its run.

use std::time::Duration;

use jobs::testing::check::{Invariant, LeaseRef, Observation, Observed, Trace, check};
use jobs::{Run, Timestamp};
use support::bank::{AtOnce, Bank, Booking};
use support::folder::TempFolder;
use support::worker::setting;

use super::{clock, plan};

/// The database at a URL, if it is one.
pub fn bank(url: &str) -> Option<Bank> {
    ["postgres://", "mysql://", "sqlite://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
        .then(|| Bank::at(url))
}

/// Nothing in the table itself refuses an effect that was committed before.
pub async fn set_up(bank: &Bank) -> anyhow::Result<()> {
    bank.execute("CREATE TABLE IF NOT EXISTS effect (tick VARCHAR(100), fence BIGINT)").await
}

/// In a worker: commits the effect of a run together with its end.
pub async fn commit(run: &Run) -> anyhow::Result<()> {
    match bank(&setting("URL").expect("a store")) {
        Some(bank) => commit_to(bank, run, Booking::Finish).await,
        None => Ok(()),
    }
}

async fn commit_to(bank: Bank, run: &Run, booking: Booking) -> anyhow::Result<()> {
    let (key, fence, tick) = (run.key(), run.fence(), run.tick().map_or(0, Timestamp::as_micros));
    let sql = format!("INSERT INTO effect (tick, fence) VALUES ('{key} {tick}', {fence})");
    if let Bank::Sqlite(_) = bank {
        let run = run.clone();
        let commit = move || bank.commit_on_sqlite(&run, &sql, booking, || {});
        return tokio::task::spawn_blocking(commit).await?;
    }
    let level = u32::try_from(fence.rem_euclid(4)).expect("small");
    bank.commit(run, &sql, (booking, level), &AtOnce).await
}

/// All effects that were committed. When each was is not known, so they are noted at the beginning: a second one of a tick, and one
/// of a run that is recorded as not committed, are noticed all the same.
pub async fn committed(bank: &Bank) -> anyhow::Result<Vec<Observation>> {
    let rows = bank.query("SELECT tick, fence, count(*) FROM effect GROUP BY tick, fence").await?;
    let effects = |(tick, fence, times): (String, i64, i64)| {
        let (key, tick) = tick.split_once(' ').expect("a key and a tick");
        let tick = tick.parse().ok().filter(|tick| *tick > 0).map(Timestamp::from_micros);
        let lease = LeaseRef { key: key.into(), fence };
        let what = Observed::Committed { lease, tick, store_time: clock::wall(), done_until: None };
        (0..times).map(move |_| Observation { at: 0, server: "".into(), what: what.clone() })
    };
    Ok(rows.into_iter().flat_map(effects).collect())
}

/// The control: effects that are not committed with the end of their run.
#[tokio::test]
async fn effect_that_is_committed_twice_is_noticed() {
    let folder = TempFolder::new();
    let bank = Bank::at(&format!("sqlite://{}", folder.path().join("jobs.db").display()));
    set_up(&bank).await.expect("a table");
    let run = Run::detached("taken-over-0");
    for (effects, violations) in [(1, 0), (2, 1)] {
        commit_to(bank.clone(), &run, Booking::Unprotected).await.expect("an effect");
        let observations = committed(&bank).await.expect("the effects");
        assert_eq!(observations.len(), effects);
        let found = check(&Trace { keys: plan::rules(), observations, slack: Duration::ZERO }).violations;
        let found = found.iter().filter(|violation| violation.invariant == Invariant::OneEffect);
        assert_eq!(found.count(), violations);
    }
}
