//! What operators do to a key.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Timestamp;
use singleton_jobs_policy::timing::request_timeout;

use super::super::messages::{
    Cancelled, Ending, ForgetReply, HeldLock, Kind, Requested, RunOutcome, RunRequest,
};
use super::super::{Claimant, Lock, LockChange, Look};
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
/// Without its mark a server that comes late would run a tick again, so the job must have been unused for `quiet`. Without
/// its fence the next one is the time, so the time must be past it.
pub fn forget(look: &Look, quiet: Duration) -> Decision<ForgetReply> {
    let draft = Draft::new(look);
    let slot = draft.slots.held.iter().find(|slot| slot.until > draft.now);
    if let Some(holder) = draft.key_holder().or_else(|| slot.map(|slot| slot.holder(draft.now))) {
        return draft.finish(ForgetReply::Held(holder));
    }
    if draft.paused {
        return draft.finish(ForgetReply::Paused);
    }
    let mark = draft.mark.as_ref().map(|mark| mark.tick).unwrap_or_default();
    let used = mark.max(Timestamp::from_micros(draft.fence));
    // Without its record a lease that was broken could come back.
    let was_broken = draft.broken_until.is_some_and(|until| until > draft.now);
    if used.plus(quiet) >= draft.now || was_broken {
        return draft.finish(ForgetReply::TooRecent(used));
    }
    match look.version {
        None => draft.finish(ForgetReply::Forgotten),
        Some(_) => draft.finish_without_record(ForgetReply::Forgotten),
    }
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
    let claimant = draft.holder(now).cloned().filter(|_| fence <= seen.fence);
    let newer = draft.holder(now).filter(|_| claimant.is_none()).map(|newer| newer.token.clone());
    let (own, seen_lock) =
        (claimant.as_ref().map(|own| &own.token), seen.lock.as_ref().map(|lock| &lock.token));
    // A look may show the lock of a newer holder beside the record of an older one.
    let is_seen =
        |lock: &Lock| Some(&lock.token) != newer.as_ref() && [own, seen_lock].contains(&Some(&lock.token));
    if draft.lock.is_some_and(is_seen) {
        draft.change.lock = LockChange::Delete;
    } else if broken.iter().all(|held| held.fence.is_none()) {
        return draft.finish(Vec::new());
    }
    draft.change.notify = true;
    if draft.slots.held.iter().any(|slot| slot.until > now && slot.fence <= Some(seen.fence)) {
        let last = draft.slots.held.iter().map(|slot| slot.until).max().unwrap_or(now);
        let slots = &mut draft.edit().slots;
        slots.held.retain(|slot| slot.fence > Some(seen.fence));
        // Whatever is older was not lost by the store, but broken.
        slots.begun = Timestamp::from_micros(0);
        draft.keep_broken(last.since(now), last);
    }
    if let Some(claimant) = claimant {
        draft.record_run(&claimant, now, &Ending::of(RunOutcome::Broken, remember));
        draft.keep_broken(Duration::from_micros(claimant.ttl_micros), claimant.until);
        draft.finish_tick(claimant.tick);
        draft.edit().claimant = Some(Claimant { released: true, broken_by: Some(by.clone()), ..claimant });
    }
    draft.finish(broken)
}

/// Asks the server that runs the job to cancel the run that was seen. Its tick is over.
pub fn cancel(look: &Look, seen: &Look, by: &Arc<str>) -> Decision<Cancelled> {
    let mut draft = Draft::new(look);
    let (now, fence) = (draft.now, draft.fence);
    let is_run = |claimant: &&Claimant| claimant.kind == Kind::Run && fence <= seen.fence;
    let Some(run) = draft.holder(now).filter(is_run).cloned() else {
        return draft.finish(Cancelled::NotRunning);
    };
    let reply = Cancelled::Asked { server: run.server.to_string(), fence, until: run.until };
    if run.cancelled_by.is_none() {
        draft.finish_tick(run.tick);
        draft.edit().claimant = Some(Claimant { cancelled_by: Some(by.clone()), ..run });
    }
    draft.finish(reply)
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
