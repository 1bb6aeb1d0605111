//! The history and the holders of a key, for people.

use super::super::{CurrentRun, Ending, HeldLock, History, JobRecords, Lease, LeaseKind, Look};
use super::transition::Transition;

/// Returns the history of a job, from a look and the records that were read after it. A run whose lease has expired without
/// a release has crashed, or its work is committed, even if no server has recorded that yet.
pub fn history(look: &Look, records: JobRecords) -> History {
    let mut transition = Transition::new(look);
    let JobRecords { mut runs, skips } = records;
    let mut current = transition.newest().filter(|run| run.kind == LeaseKind::Run && !transition.released);
    if let Some(crashed) = current.take_if(|run| run.until <= transition.now)
        && runs.iter().all(|run| run.fence != crashed.fence)
    {
        let (ended, outcome) = transition.end_without_release(&crashed);
        runs.insert(0, transition.count(&crashed, ended, &Ending::of(outcome, 0)));
    }
    History {
        current: current.map(|run| CurrentRun {
            cancelled_by: transition.cancelled_by.as_deref().map(str::to_owned),
            ..CurrentRun::of(run)
        }),
        runs,
        skips,
        stats: transition.stats,
        pause: transition.active_pause(transition.now).cloned(),
        registered: transition.registered.clone(),
        request: transition.request.clone(),
    }
}

/// Returns the leases that hold the key or slots of it.
pub fn held(look: &Look, key: &str) -> Vec<HeldLock> {
    let transition = Transition::new(look);
    let (now, key) = (transition.now, key.to_owned());
    let held = |lease: &Lease| HeldLock {
        key: key.clone(),
        kind: Some(lease.kind),
        fence: Some(lease.fence),
        holder: lease.holder(now),
    };
    let lock = match transition.held_lease() {
        Some(ours) => Some(held(&ours)),
        None => transition.key_holder().map(|holder| HeldLock {
            key: key.clone(),
            kind: None,
            fence: None,
            holder,
        }),
    };
    lock.into_iter().chain(transition.held_slots(now).map(held)).collect()
}
