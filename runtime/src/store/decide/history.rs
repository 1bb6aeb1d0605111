//! What a look shows to people.

use super::super::messages::{CurrentRun, Ending, HeldLock, History, Kind, RunOutcome};
use super::super::{Claimant, JobRecords, Look};
use super::draft::Draft;

/// What is known of a job, from a look and the records that were read after it. A run whose lease is over without a word
/// has crashed, though no server has recorded it yet.
pub fn history(look: &Look, records: JobRecords) -> History {
    let mut draft = Draft::new(look);
    let JobRecords { mut runs, skips } = records;
    let run = draft.claimant.clone().filter(|claimant| claimant.kind == Kind::Run && !claimant.released);
    let current = run.as_ref().filter(|run| run.until > draft.now).map(|run| current_run(run, draft.fence));
    let recorded = runs.iter().any(|run| run.fence == draft.fence);
    if let (Some(crashed), None, false) = (run, &current, recorded) {
        runs.insert(0, draft.count(&crashed, crashed.until, &Ending::of(RunOutcome::Crashed, 0)));
    }
    History {
        current,
        runs,
        skips,
        stats: draft.stats,
        paused: draft.paused,
        registered: draft.registered.clone(),
        request: draft.request.clone(),
    }
}

fn current_run(run: &Claimant, fence: i64) -> CurrentRun {
    CurrentRun {
        tick: run.tick,
        server: run.server.to_string(),
        fence,
        attempt: run.attempt,
        started: run.since,
        until: run.until,
        progress: run.progress.clone(),
        request: run.request.as_deref().map(str::to_owned),
    }
}

/// Who holds the key, or slots of it.
pub fn held(look: &Look, key: &str) -> Vec<HeldLock> {
    let draft = Draft::new(look);
    let ours = draft.holder(draft.now);
    let (kind, fence) = (ours.map(|claimant| claimant.kind), ours.map(|_| draft.fence));
    let lock = draft.key_holder().map(|holder| HeldLock { key: key.to_owned(), kind, fence, holder });
    let slots = draft.slots.held.iter().filter(|slot| slot.until > draft.now).map(|slot| HeldLock {
        key: key.to_owned(),
        kind: Some(Kind::Slot { of: slot.of }),
        fence: slot.fence,
        holder: slot.holder(draft.now),
    });
    lock.into_iter().chain(slots).collect()
}
