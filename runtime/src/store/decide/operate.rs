//! What operators do to a key, and see of it.

use std::time::Duration;

use singleton_jobs_policy::Timestamp;

use super::super::messages::{Ending, ForgetReply, HeldLock, Requested, RunOutcome, RunRequest};
use super::{Claimant, State};

/// An operator pauses the job, or lets it go on. The ticks of a pause were skipped, not missed.
pub fn set_paused(state: &mut State, now: Timestamp, paused: bool) {
    state.drop_expired(now);
    if paused {
        state.expires = None;
    }
    let resumed = std::mem::replace(&mut state.paused, paused) && !paused;
    if let Some(registered) = state.registered.as_mut().filter(|_| resumed) {
        registered.at = now;
    }
}

/// An operator takes back a mark from the future: ticks up to now stay decided, later ones become free.
pub fn reset(state: &mut State, now: Timestamp) {
    if let Some(mark) = &mut state.mark {
        mark.tick = mark.tick.min(now);
    }
}

/// An operator removes a job that nobody schedules any more.
///
/// Without its mark a server that comes late would run a tick again, so the job must have been quiet for a while.
/// Without its fence the next one is the time, so the time must be past it.
pub fn forget(state: &mut State, now: Timestamp, quiet: Duration) -> ForgetReply {
    state.drop_expired(now);
    if let Some(holder) = state.holder(now).or_else(|| state.slots.first_to_end(now)) {
        return ForgetReply::Held(holder);
    }
    if state.paused {
        return ForgetReply::Paused;
    }
    let mark = state.mark.as_ref().map_or(Timestamp::from_micros(0), |mark| mark.tick);
    let used = mark.max(Timestamp::from_micros(state.fence.max(state.slots.fence)));
    if used.plus(quiet) >= now {
        return ForgetReply::TooRecent(used);
    }
    *state = State::default();
    ForgetReply::Forgotten
}

/// A server that does not have the job's function asks for a run; the reply is the request that counts now.
pub fn request(state: &mut State, now: Timestamp, request: &RunRequest) -> Requested {
    state.drop_expired(now);
    if let Some(waiting) = state.waits_for(now) {
        return waiting.clone();
    }
    state.expires = None;
    let RunRequest { id, by, ttl } = request.clone();
    state.request.insert(Requested { id, by, until: now.plus(ttl), answer: None }).clone()
}

/// An operator frees the key, whoever holds it, and every slot of it. The holders learn of it at their next extension.
pub fn break_lock(state: &mut State, now: Timestamp, key: &str, remember: usize) -> Vec<HeldLock> {
    let broken = held(state, now, key);
    state.drop_expired(now);
    state.lock = None;
    state.slots.held.clear();
    // Whatever is older was not lost by the store, but broken.
    state.slots.begun = Timestamp::default();
    let claimant = state.claimant.take();
    state.claimant = claimant.map(|claimant| {
        if claimant.released || claimant.until <= now {
            return claimant;
        }
        state.remember(now, &claimant, &Ending::of(RunOutcome::Broken, remember));
        Claimant { released: true, ..claimant }
    });
    broken
}

/// Whether nothing is left to be known of the key.
pub fn is_gone(state: &State, now: Timestamp) -> bool {
    let mut state = state.clone();
    state.drop_expired(now);
    state == State::default()
}

/// Who holds the key, and slots of it.
pub fn held(state: &State, now: Timestamp, key: &str) -> Vec<HeldLock> {
    let mut state = state.clone();
    state.drop_expired(now);
    let ours = state.claimant.as_ref().filter(|claimant| !claimant.released && claimant.until > now);
    let (kind, fence) = (ours.map(|claimant| claimant.kind), ours.map(|_| state.fence));
    let lock = state.holder(now).map(|holder| HeldLock { key: key.to_owned(), kind, fence, holder });
    lock.into_iter().chain(state.slots.list(now, key)).collect()
}
