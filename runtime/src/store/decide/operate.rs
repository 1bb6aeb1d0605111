//! Decides what operators ask for.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Timestamp;
use singleton_jobs_policy::timing::request_timeout;

use super::super::{
    CurrentRun, Ending, Forgotten, HeldLock, Lease, LeaseKind, LockChange, Look, Pause, PauseOrder,
    RunOutcome, RunRequest, SharedLock,
};
use super::transition::Transition;
use super::{Decision, expiry, history::held};

/// Pauses a job, or changes a pause. Claims skip the ticks of a pause. Returns the pause that counts.
pub fn pause(look: &Look, order: &PauseOrder, remember: usize) -> Decision<Pause> {
    let mut transition = Transition::new(look);
    transition.change.keep = remember;
    let now = transition.now;
    let current = transition.pause.clone();
    if let Some(ended) = current.as_ref().and_then(|pause| pause.until).filter(|until| *until <= now) {
        transition.end_pause(ended, &order.by);
    }
    let current = current.filter(|pause| pause.is_active(now));
    if let Some(own) = current.as_ref().filter(|pause| order.all && !pause.all) {
        return transition.finish(own.clone());
    }
    let pause = Pause {
        by: order.by.clone(),
        reason: order.reason.clone(),
        since: current.map_or(now, |pause| pause.since),
        until: order.lasts.map(|lasts| expiry(now, lasts)),
        all: order.all,
    };
    let state = transition.edit();
    (state.pause, state.expires) = (Some(pause.clone()), None);
    transition.finish(pause)
}

/// Resumes a job, or leaves it as it is if all jobs are resumed and it was paused alone. Returns the pause that ends. Ticks that
/// no server claimed meanwhile are missed, and the next winner reports them. No tick of the pause runs after it.
pub fn resume(look: &Look, by: &str, all: bool, remember: usize) -> Decision<Option<Pause>> {
    let mut transition = Transition::new(look);
    transition.change.keep = remember;
    let now = transition.now;
    let Some(pause) = transition.pause.clone().filter(|pause| pause.all || !all) else {
        return transition.finish(None);
    };
    let ended = pause.until.filter(|until| *until <= now);
    transition.end_pause(ended.unwrap_or(now), by);
    transition.finish(Some(pause).filter(|_| ended.is_none()))
}

/// Lowers a mark that is in the future to now: later ticks become free.
pub fn reset(look: &Look) -> Decision<()> {
    let mut transition = Transition::new(look);
    let (now, fence) = (transition.now, transition.fence);
    if transition.mark.as_ref().is_some_and(|mark| mark.tick > now) {
        let state = transition.edit();
        if let Some(mark) = &mut state.mark {
            mark.tick = now;
        }
        // The release of a run in progress must not raise it again.
        state.reset_fence = Some(fence);
    }
    transition.finish(())
}

/// Removes the record of a job that no server schedules any more.
///
/// Without the mark a late server would run a tick again, so the job must have been unused for `quiet`, and the grace of
/// every tick up to the mark must be over. Without the fence the next one is the clock, so the clock must be past it.
pub fn forget(look: &Look, quiet: Duration) -> Decision<Forgotten> {
    let transition = Transition::new(look);
    let slot = || transition.held_slots(transition.now).next().map(|slot| slot.holder(transition.now));
    if let Some(holder) = transition.key_holder().or_else(slot) {
        return transition.finish(Forgotten::Held(holder));
    }
    if transition.active_pause(transition.now).is_some() {
        return transition.finish(Forgotten::Paused);
    }
    let mark = transition.mark.as_ref().map(|mark| mark.tick).unwrap_or_default();
    let used = mark.max(Timestamp::from_micros(transition.fence));
    // Without the record the holder of a broken lease could restore it.
    let was_broken = transition.broken_until.is_some_and(|until| until > transition.now);
    let is_claimable = transition.claimable_until.is_some_and(|until| until >= transition.now);
    // Without the record the work would be done again.
    let is_done = transition.done.as_ref().is_some_and(|done| done.until > transition.now);
    if used + quiet >= transition.now || is_claimable || was_broken || is_done {
        return transition.finish(Forgotten::TooRecent(used));
    }
    match look.version {
        None => transition.finish(Forgotten::Yes),
        Some(_) => transition.finish_without_record(Forgotten::Yes),
    }
}

/// Requests a manual run, by a server that does not have the job. Returns the open request, which may be an earlier one.
pub fn request(look: &Look, id: &str, by: &str, ttl: Duration) -> Decision<RunRequest> {
    let mut transition = Transition::new(look);
    if let Some(open) = transition.open_request().cloned() {
        return transition.finish(open);
    }
    let (id, by) = (id.to_owned(), by.to_owned());
    let counts = RunRequest { id, by, until: transition.now + ttl, answer: None };
    let state = transition.edit();
    state.expires = None;
    state.request = Some(counts.clone());
    transition.finish(counts)
}

/// Breaks the leases of the key, or of its slots, that the operator has seen, but no newer ones. Their holders learn of it
/// at their next extension.
///
/// Breaking is an operator's decision: the tick of a broken run is over, and no other server takes it up.
pub fn break_lock(
    look: &Look,
    key: &str,
    seen: &Look,
    by: &Arc<str>,
    remember: usize,
) -> Decision<Vec<HeldLock>> {
    let was_seen = |held: &HeldLock| held.fence.is_none_or(|fence| fence <= seen.fence);
    let broken: Vec<_> = held(look, key).into_iter().filter(was_seen).collect();
    let mut transition = Transition::new(look);
    let (now, fence) = (transition.now, transition.fence);
    let holder = transition.held_lease();
    // A look may show the lock of a newer holder beside the record of an older one.
    let is_seen = |lock: &SharedLock| match &holder {
        Some(holder) if holder.token == lock.token => fence <= seen.fence,
        _ => seen.lock.as_ref().is_some_and(|seen| seen.token == lock.token),
    };
    if transition.lock.is_some_and(is_seen) {
        transition.change.lock = LockChange::Delete;
    } else if broken.iter().all(|held| held.fence.is_none()) {
        return transition.finish(Vec::new());
    }
    transition.change.notify = true;
    if transition.held_slots(now).any(|slot| slot.fence <= seen.fence) {
        let last = transition.slots.iter().map(|slot| slot.until).max().unwrap_or(now);
        let state = transition.edit();
        state.slots.retain(|slot| slot.fence > seen.fence);
        // Older slots were not lost by the store, but broken.
        state.slots_since = Timestamp::from_micros(0);
        transition.keep_broken(last.since(now), last);
    }
    if let Some(lease) = holder.filter(|_| fence <= seen.fence) {
        let state = transition.edit();
        (state.released, state.broken_by) = (true, Some(by.clone()));
        transition.end_lease();
        let outcome = if transition.committed.is_some() { RunOutcome::Committed } else { RunOutcome::Broken };
        transition.record_run(&lease, now, &Ending::of(outcome, remember));
        transition.keep_broken(lease.ttl, lease.until);
        transition.finish_tick(lease.tick);
    }
    transition.finish(broken)
}

/// Cancels the run that the operator has seen: its server learns of it at its next extension, and its tick is over. Returns
/// the run, if there is one.
pub fn cancel(look: &Look, seen: &Look, by: &Arc<str>) -> Decision<Option<CurrentRun>> {
    let mut transition = Transition::new(look);
    let was_seen = |run: &Lease| run.kind == LeaseKind::Run && run.fence <= seen.fence;
    let run = transition.held_lease().filter(was_seen);
    if let Some(run) = run.as_ref().filter(|_| transition.cancelled_by.is_none()) {
        transition.finish_tick(run.tick);
        transition.edit().cancelled_by = Some(by.clone());
    }
    let cancelled_by = transition.cancelled_by.as_deref().map(str::to_owned);
    transition.finish(run.map(|run| CurrentRun { cancelled_by, ..CurrentRun::of(run) }))
}

impl Transition<'_> {
    /// Keeps the record for as long as a late extension could restore a broken lease.
    fn keep_broken(&mut self, ttl: Duration, until: Timestamp) {
        let late = request_timeout(ttl);
        let broken_until = ((self.now + ttl).max(until) + late).max(self.broken_until.unwrap_or_default());
        self.stay_until(broken_until);
        self.edit().broken_until = Some(broken_until);
    }
}
