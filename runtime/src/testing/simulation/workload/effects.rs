//! Effects of simulated runs, in a database that is also the store: a transaction commits an effect and finishes the run.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::recorder::{Recorder, first_word};
use crate::lease::transaction::sealed::CommitUnderLease;
use crate::lease::transaction::{AbortFuture, CheckFailure, CheckFuture, LeaseCheck};
use crate::store::memory::MemoryStore;
use crate::store::{FenceTable, LeaseId, NotCurrent};
use crate::testing::check::{LeaseRef, Observed};
use crate::testing::network::Link;
use crate::util::probe::reached;
use crate::util::random::seeded::SeededRandom;
use crate::{Run, Timestamp};

/// The application's database, over the connection of one server.
#[derive(Clone)]
pub(in crate::testing::simulation) struct SimulatedDatabase {
    pub(in crate::testing::simulation) link: Link,
    pub(in crate::testing::simulation) store: MemoryStore,
}

/// How a run commits its effect.
pub(in crate::testing::simulation) struct PlannedEffect {
    /// Some runs find nothing to do.
    is_needed: bool,
    /// How long the application waits for its database, in percent of the ttl.
    patience: u32,
    /// How long the run continues after the commit.
    continues: Duration,
}

impl PlannedEffect {
    pub(in crate::testing::simulation) fn draw(seed: u64, run: &Run, ttl: Duration) -> Self {
        let at = run.tick().map_or(run.fence(), Timestamp::as_micros);
        let random = &mut SeededRandom::new(
            seed,
            &format!("effect {} {at} {} {}", run.key(), run.attempt(), run.retry()),
        );
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(1_000);
        Self {
            is_needed: random.percent(85),
            patience: random.pick(&[10, 50, 100, 200]),
            continues: match random.below(4) {
                0 | 1 => Duration::ZERO,
                2 => random.millis(1, 300),
                _ => random.millis(1, 2 * ttl),
            },
        }
    }

    /// Commits the effect in a transaction that finishes the run, as a careful job does: it returns the error.
    pub(in crate::testing::simulation) async fn commit(
        self,
        run: &Run,
        recorder: &Recorder,
    ) -> Result<(), String> {
        let Some(database) = recorder.database(run.server()).filter(|_| self.is_needed) else {
            return Ok(());
        };
        let mut transaction = SimulatedTransaction {
            database,
            recorder: recorder.clone(),
            server: run.server().into(),
            tick: run.tick(),
            patience: self.patience,
        };
        let finished = run.finish(&mut transaction).await;
        match &finished {
            Ok(()) => reached(format_args!("finish: committed")),
            Err(error) => reached(format_args!("finish: {}", first_word(&format!("{error:?}")))),
        }
        finished.map_err(|error| error.to_string())?;
        sleep(self.continues).await;
        Ok(())
    }
}

/// A transaction with one effect. The check and the commit are one message: it arrives or it does not, early or late.
struct SimulatedTransaction {
    database: SimulatedDatabase,
    recorder: Recorder,
    server: Arc<str>,
    tick: Option<Timestamp>,
    /// In percent of the ttl.
    patience: u32,
}

impl CommitUnderLease for SimulatedTransaction {
    fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a> {
        Box::pin(async move {
            if check.table != FenceTable::Simulated {
                return Err(CheckFailure::NoTable);
            }
            let commit = self.committed_by(check.clone());
            match timeout(check.ttl * self.patience / 100, self.database.link.commit(commit)).await {
                Ok(Ok(committed)) => committed.map_err(|_| CheckFailure::NotNewest),
                Ok(Err(error)) => Err(CheckFailure::Database(Box::new(error))),
                Err(late) => Err(CheckFailure::Database(Box::new(late))),
            }
        })
    }

    /// Nothing is committed without the check.
    fn abort(&mut self) -> AbortFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}

impl SimulatedTransaction {
    /// What the store does with this transaction, and with each copy of it.
    fn committed_by(&self, check: LeaseCheck) -> impl Fn() -> Result<(), NotCurrent> + Send + Sync + 'static {
        let lease = LeaseRef { key: check.key.as_str().into(), fence: check.fence };
        self.recorder.finishes(&lease);
        let (store, recorder) = (self.database.store.clone(), self.recorder.clone());
        let (server, tick) = (self.server.clone(), self.tick);
        move || {
            let id = LeaseId { token: &check.token, fence: check.fence };
            let done_for = check.finish.and_then(|finish| finish.done_for);
            let done_until = match store.finish(&check.key, id, done_for) {
                Ok(mark) => mark.done_until,
                Err(_) if !recorder.checks_leases() => None,
                Err(why) => return Err(why),
            };
            let store_time = recorder.store_time();
            recorder.add(&server, Observed::Committed { lease: lease.clone(), tick, store_time, done_until });
            Ok(())
        }
    }
}
