//! What a look shows to people.

use super::super::{CurrentRun, Ending, HeldLock, History, JobRecords, Kind, Lease, Look, RunOutcome};
use super::draft::Draft;

/// What is known of a job, from a look and the records that were read after it. A run whose lease is over without a word
/// has crashed, though no server has recorded it yet.
pub fn history(look: &Look, records: JobRecords) -> History {
    let mut draft = Draft::new(look);
    let JobRecords { mut runs, skips } = records;
    let mut current = draft.newest().filter(|run| run.kind == Kind::Run && !draft.released);
    if let Some(crashed) = current.take_if(|run| run.until <= draft.now)
        && runs.iter().all(|run| run.fence != crashed.fence)
    {
        runs.insert(0, draft.count(&crashed, crashed.until, &Ending::of(RunOutcome::Crashed, 0)));
    }
    History {
        current: current.map(CurrentRun::of),
        runs,
        skips,
        stats: draft.stats,
        paused: draft.paused,
        registered: draft.registered.clone(),
        request: draft.request.clone(),
    }
}

/// Who holds the key, or slots of it.
pub fn held(look: &Look, key: &str) -> Vec<HeldLock> {
    let draft = Draft::new(look);
    let (now, key) = (draft.now, key.to_owned());
    let held = |lease: &Lease| HeldLock {
        key: key.clone(),
        kind: Some(lease.kind),
        fence: Some(lease.fence),
        holder: lease.holder(now),
    };
    let lock = match draft.held_lease() {
        Some(ours) => Some(held(&ours)),
        None => {
            draft.key_holder().map(|holder| HeldLock { key: key.clone(), kind: None, fence: None, holder })
        }
    };
    lock.into_iter().chain(draft.held_slots(now).map(held)).collect()
}
