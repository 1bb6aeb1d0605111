//! What operators do to a key.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Timestamp;
use singleton_jobs_policy::timing::request_timeout;

use super::super::messages::{
    Cancelled, Ending, ForgetReply, HeldLock, Kind, Requested, RunOutcome, RunRequest,
};
use super::super::{Claimant, LockChange, Look};
use super::draft::Draft;
use super::{Decision, history::held};

/// Pauses the job, or resumes it. The ticks of a pause were skipped, not missed.
pub fn set_paused(look: &Look, paused: bool) -> Decision<()> {
    let mut draft = Draft::new(look);
    if draft.paused != paused {
        let now = draft.now;
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
/// Without its mark a server that comes late would run a tick again, so the job must have been unused for `quiet`. Without
/// its fence the next one is the time, so the time must be past it.
pub fn forget(look: &Look, quiet: Duration) -> Decision<ForgetReply> {
    let draft = Draft::new(look);
    if let Some(holder) = draft.key_holder() {
        return draft.finish(ForgetReply::Held(holder));
    }
    if let Some(slot) = draft.slots.held.iter().find(|slot| slot.until > draft.now) {
        let holder = slot.holder(draft.now);
        return draft.finish(ForgetReply::Held(holder));
    }
    if draft.paused {
        return draft.finish(ForgetReply::Paused);
    }
    let mark = draft.mark.as_ref().map_or(Timestamp::from_micros(0), |mark| mark.tick);
    let used = mark.max(Timestamp::from_micros(draft.fence));
    if used.plus(quiet) >= draft.now {
        return draft.finish(ForgetReply::TooRecent(used));
    }
    if look.version.is_none() {
        return draft.finish(ForgetReply::Forgotten);
    }
    draft.finish_without_record(ForgetReply::Forgotten)
}

/// A server that does not have the job's function asks for a run; the reply is the request that counts now.
pub fn request(look: &Look, request: &RunRequest) -> Decision<Requested> {
    let mut draft = Draft::new(look);
    if let Some(open) = draft.open_request().cloned() {
        return draft.finish(open);
    }
    let RunRequest { id, by, ttl } = request.clone();
    let counts = Requested { id, by, until: draft.now.plus(ttl), answer: None };
    let state = draft.edit();
    state.expires = None;
    state.request = Some(counts.clone());
    draft.finish(counts)
}

/// Frees the key, or all its slots, whoever holds them. The holders learn of it at their next extension.
///
/// Breaking is an operator's decision: the tick of a broken run is over, and no other server takes it up.
pub fn break_lock(look: &Look, key: &str, by: &Arc<str>, remember: usize) -> Decision<Vec<HeldLock>> {
    let broken = held(look, key);
    let mut draft = Draft::new(look);
    if broken.is_empty() {
        return draft.finish(broken);
    }
    let now = draft.now;
    draft.change.notify = true;
    if draft.lock.is_some() {
        draft.change.lock = LockChange::Delete;
    }
    if !draft.slots.held.is_empty() {
        let slots = &mut draft.edit().slots;
        slots.held.clear();
        // Whatever is older was not lost by the store, but broken.
        slots.begun = Timestamp::from_micros(0);
    }
    if let Some(claimant) = draft.holder(now).cloned() {
        // As long as a late extension of the broken lease could still restore it, the record has to stay.
        let ttl = Duration::from_micros(claimant.ttl_micros);
        let until = now.plus(ttl).plus(request_timeout(ttl));
        draft.record_run(&claimant, now, &Ending::of(RunOutcome::Broken, remember));
        draft.stay_until(until);
        let state = draft.edit();
        state.broken_until = Some(until);
        if let Some(started) = state.started.as_mut().filter(|started| Some(started.tick) == claimant.tick) {
            started.finished = true;
        }
        state.claimant = Some(Claimant { released: true, broken_by: Some(by.clone()), ..claimant });
    }
    draft.finish(broken)
}

/// Asks the server that runs the job to cancel the run.
pub fn cancel(look: &Look, by: &Arc<str>) -> Decision<Cancelled> {
    let mut draft = Draft::new(look);
    let (now, fence) = (draft.now, draft.fence);
    let Some(run) = draft.holder(now).filter(|claimant| claimant.kind == Kind::Run).cloned() else {
        return draft.finish(Cancelled::NotRunning);
    };
    let reply = Cancelled::Asked { server: run.server.to_string(), fence, until: run.until };
    if run.cancelled_by.is_none() {
        draft.edit().claimant = Some(Claimant { cancelled_by: Some(by.clone()), ..run });
    }
    draft.finish(reply)
}
