//! What operators do to a key.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Timestamp;
use singleton_jobs_policy::timing::request_timeout;

use super::super::{
    CurrentRun, Ending, Forgotten, HeldLock, Kind, Lease, Lock, LockChange, Look, Requested, RunOutcome,
};
use super::draft::Draft;
use super::{Decision, history::held};

/// Pauses the job, or resumes it. A tick of a pause is skipped by the claim that finds it; those for which no server asked are
/// missed, and reported by the next winner. None of them runs after the resumption.
pub fn set_paused(look: &Look, paused: bool) -> Decision<()> {
    let mut draft = Draft::new(look);
    if draft.paused != paused {
        let now = draft.now;
        if !paused {
            draft.close_registration();
        }
        let state = draft.edit();
        state.paused = paused;
        if paused {
            state.expires = None;
        } else if let Some(registered) = &mut state.registered {
            registered.at = now;
        }
    }
    draft.finish(())
}

/// Takes back a mark that lies in the future: ticks up to now stay decided, later ones become free.
pub fn reset(look: &Look) -> Decision<()> {
    let mut draft = Draft::new(look);
    let (now, fence) = (draft.now, draft.fence);
    if draft.mark.as_ref().is_some_and(|mark| mark.tick > now) {
        let state = draft.edit();
        if let Some(mark) = &mut state.mark {
            mark.tick = now;
        }
        // The end of a run that is in progress must not raise it again.
        state.reset_fence = Some(fence);
    }
    draft.finish(())
}

/// Removes a job that no server schedules any more.
///
/// Without its mark a server that comes late would run a tick again, so the job must have been unused for `quiet`, and the
/// grace of every tick up to the mark be over. Without its fence the next one is the time, so the time must be past it.
pub fn forget(look: &Look, quiet: Duration) -> Decision<Forgotten> {
    let draft = Draft::new(look);
    let slot = || draft.held_slots(draft.now).next().map(|slot| slot.holder(draft.now));
    if let Some(holder) = draft.key_holder().or_else(slot) {
        return draft.finish(Forgotten::Held(holder));
    }
    if draft.paused {
        return draft.finish(Forgotten::Paused);
    }
    let mark = draft.mark.as_ref().map(|mark| mark.tick).unwrap_or_default();
    let used = mark.max(Timestamp::from_micros(draft.fence));
    // Without its record a lease that was broken could come back.
    let was_broken = draft.broken_until.is_some_and(|until| until > draft.now);
    let is_claimable = draft.claimable_until.is_some_and(|until| until >= draft.now);
    if used.plus(quiet) >= draft.now || is_claimable || was_broken {
        return draft.finish(Forgotten::TooRecent(used));
    }
    match look.version {
        None => draft.finish(Forgotten::Yes),
        Some(_) => draft.finish_without_record(Forgotten::Yes),
    }
}

/// A server that does not have the job's function asks for a run; the reply is the request that counts now.
pub fn request(look: &Look, id: &str, by: &str, ttl: Duration) -> Decision<Requested> {
    let mut draft = Draft::new(look);
    if let Some(open) = draft.open_request().cloned() {
        return draft.finish(open);
    }
    let (id, by) = (id.to_owned(), by.to_owned());
    let counts = Requested { id, by, until: draft.now.plus(ttl), answer: None };
    let state = draft.edit();
    state.expires = None;
    state.request = Some(counts.clone());
    draft.finish(counts)
}

/// Frees the key, or all its slots, of the holders that the operator has seen, and not of those who came after them. They learn
/// of it at their next extension.
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
    let mut draft = Draft::new(look);
    let (now, fence) = (draft.now, draft.fence);
    let holder = draft.held_lease();
    // A look may show the lock of a newer holder beside the record of an older one.
    let is_seen = |lock: &Lock| match &holder {
        Some(holder) if holder.token == lock.token => fence <= seen.fence,
        _ => seen.lock.as_ref().is_some_and(|seen| seen.token == lock.token),
    };
    if draft.lock.is_some_and(is_seen) {
        draft.change.lock = LockChange::Delete;
    } else if broken.iter().all(|held| held.fence.is_none()) {
        return draft.finish(Vec::new());
    }
    draft.change.notify = true;
    if draft.held_slots(now).any(|slot| slot.fence <= seen.fence) {
        let last = draft.slots.iter().map(|slot| slot.until).max().unwrap_or(now);
        let state = draft.edit();
        state.slots.retain(|slot| slot.fence > seen.fence);
        // Whatever is older was not lost by the store, but broken.
        state.slots_since = Timestamp::from_micros(0);
        draft.keep_broken(last.since(now), last);
    }
    if let Some(lease) = holder.filter(|_| fence <= seen.fence) {
        draft.record_run(&lease, now, &Ending::of(RunOutcome::Broken, remember));
        draft.keep_broken(lease.ttl, lease.until);
        draft.finish_tick(lease.tick);
        let state = draft.edit();
        (state.released, state.broken_by) = (true, Some(by.clone()));
    }
    draft.finish(broken)
}

/// Asks the server that runs the job to cancel the run that was seen, which it learns at its next extension. Its tick is over.
/// The reply is that run, if there is one.
pub fn cancel(look: &Look, seen: &Look, by: &Arc<str>) -> Decision<Option<CurrentRun>> {
    let mut draft = Draft::new(look);
    let was_seen = |run: &Lease| run.kind == Kind::Run && run.fence <= seen.fence;
    let run = draft.held_lease().filter(was_seen);
    if let Some(run) = run.as_ref().filter(|_| draft.cancelled_by.is_none()) {
        draft.finish_tick(run.tick);
        draft.edit().cancelled_by = Some(by.clone());
    }
    draft.finish(run.map(CurrentRun::of))
}

impl Draft<'_> {
    /// As long as a late extension of a broken lease could restore it, the record has to stay.
    fn keep_broken(&mut self, ttl: Duration, until: Timestamp) {
        let late = request_timeout(ttl);
        let broken_until =
            self.now.plus(ttl).max(until).plus(late).max(self.broken_until.unwrap_or_default());
        self.stay_until(broken_until);
        self.edit().broken_until = Some(broken_until);
    }
}
