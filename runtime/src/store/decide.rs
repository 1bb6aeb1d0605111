//! The store contract as pure functions: one per transition, no I/O, the time passed in.
//!
//! The memory and file stores are thin shells around these functions. The Redis scripts and the
//! PostgreSQL functions are proved equal to them by replaying random operations against both.
//!
//! A store of your own can be such a shell, too: begin a transaction, read a key's [`State`], apply the function with the
//! time, write the state back, commit. What servers say of themselves is a [`Fleet`], one for all keys.

use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap, Timestamp};

use super::messages::{
    Claim, ClaimReply, CurrentRun, Ending, ExtendReply, History, Kind, Lease, ReleaseReply, RequestAnswer,
    RunOutcome, Skip, TickClaim, Verdict, What,
};

mod decide;
mod fleet;
mod keep;
mod operate;
mod slots;
mod state;

pub use fleet::{Fleet, announce, hint, leave, servers};
pub use operate::{break_lock, forget, held, is_gone, request, reset, set_paused};
pub use slots::{Slot, Slots};
pub use state::{Claimant, Done, FORMAT, Lock, Mark, Started, State, UnreadableState};

/// The fence in the release of a claim whose reply never came: whatever it won, if anything, is given back.
pub const UNKNOWN_FENCE: i64 = 0;

/// A server asks for the key. The order of the steps is the contract.
pub fn claim(state: &mut State, now: Timestamp, claim: &Claim) -> Verdict {
    state.drop_expired(now);
    let again = state.claimant.as_ref().is_some_and(|claimant| claimant.token == claim.token);
    if again && !matches!(claim.what, What::Slot(_)) {
        let decision = state.claimed_again(now);
        let unfinished = state.left_unfinished(now, claim, &decision);
        return Verdict { decision, unfinished, other_schedule: None };
    }
    match &claim.what {
        What::Now | What::Lock | What::Leader => state.claimed_by_hand(now, claim).into(),
        What::Once => state.claimed_once(now, claim).into(),
        What::Requested(id) => claim_requested(state, now, claim, id).into(),
        What::Slot(of) => state.slots.claim(now, claim, *of).into(),
        What::Tick(ask) => {
            let due = ask.tick.plus(ask.delay);
            if due > now {
                return ClaimReply::Early(due.since(now)).into();
            }
            state.expires = None;
            let other_schedule = state.register(now, claim, ask);
            let decision = claim_tick(state, now, claim, ask);
            let unfinished = state.left_unfinished(now, claim, &decision);
            Verdict { decision, unfinished, other_schedule }
        }
    }
}

/// A tick that is due, by a claim that is new.
fn claim_tick(state: &mut State, now: Timestamp, claim: &Claim, ask: &TickClaim) -> ClaimReply {
    if let Some(attempt) = state.attempts_to_take_over(now, ask) {
        return state.win(now, claim, Some(ask.tick), attempt + 1);
    }
    if let Some(decided) = state.decided(now, ask.tick) {
        return decided;
    }
    let registered = state.registered_before(ask);
    let seen_coming = now.minus(ask.known_for) < ask.tick;
    if !registered && !seen_coming {
        return ClaimReply::Unregistered;
    }
    if state.paused {
        state.skip(now, claim, ask.tick, Skip::Paused);
        return ClaimReply::Paused;
    }
    let due = ask.tick.plus(ask.delay);
    let late = now > due.plus(ask.grace);
    // Only what the store itself remembers shows that nobody ran it meanwhile: after a wipe it shows nothing.
    if late && !(ask.missed == Missed::RunOnce && registered) {
        return ClaimReply::Late(now.since(due));
    }
    if let Some(holder) = state.holder(now) {
        // A tick that was missed waits for its one chance.
        if ask.overlap == Overlap::Skip && !late {
            state.skip(now, claim, ask.tick, Skip::Held);
        }
        return ClaimReply::Held(holder);
    }
    state.win(now, claim, Some(ask.tick), 1)
}

/// A run that another server asked for. Whoever comes first answers the request, in the same step.
fn claim_requested(state: &mut State, now: Timestamp, claim: &Claim, id: &str) -> ClaimReply {
    if state.waits_for(now).is_none_or(|request| request.id != id) {
        return ClaimReply::NotRequested;
    }
    let reply = state.claimed_by_hand(now, claim);
    let answer = match &reply {
        ClaimReply::Held(holder) => RequestAnswer::Held { server: holder.server.clone() },
        _ => RequestAnswer::Started { server: claim.server.to_string(), fence: state.fence },
    };
    if let Some(request) = &mut state.request {
        request.answer = Some(answer);
    }
    reply
}

/// The holder asks for more time.
pub fn extend(state: &mut State, now: Timestamp, lease: &Lease) -> ExtendReply {
    state.drop_expired(now);
    if let Kind::Slot { of } = lease.kind {
        return state.slots.extend(now, lease, of);
    }
    let until = expiry(now, lease.ttl);
    let stranger = state.lock.as_ref().is_some_and(|lock| {
        lock.token != lease.token
            && state.claimant.as_ref().is_none_or(|claimant| claimant.token != lock.token)
    });
    let lock = Some(Lock { token: lease.token.clone(), until: Some(until) });
    match &mut state.claimant {
        Some(claimant) if claimant.token == lease.token && state.fence == lease.fence => {
            // The holder may know of a later expiry than a store that lost its last writes.
            let alive = !claimant.released && claimant.until.max(lease.until) > now;
            if !alive || stranger {
                return ExtendReply::Lost;
            }
            let until = not_before(until, claimant.until, lease);
            claimant.until = until;
            claimant.progress.clone_from(&lease.progress);
            state.outlives(lease.kind, now, lease.ttl);
            state.lock = Some(Lock { token: lease.token.clone(), until: Some(until) });
            ExtendReply::Kept(until)
        }
        _ if lease.fence > state.fence && lease.until > now && !stranger => {
            state.restore(now, lease, until, false, false);
            state.lock = lock;
            ExtendReply::Restored(until)
        }
        _ => ExtendReply::Lost,
    }
}

/// The holder is done. One record per lease, however often this is sent.
pub fn release(state: &mut State, now: Timestamp, lease: &Lease, end: &Ending) -> ReleaseReply {
    state.drop_expired(now);
    if let Kind::Slot { .. } = lease.kind {
        return state.slots.release(lease);
    }
    if state.lock.as_ref().is_some_and(|lock| lock.token == lease.token) {
        state.lock = None;
    }
    let finished = end.outcome.is_finished();
    match state.claimant.clone() {
        Some(claimant)
            if claimant.token == lease.token && [state.fence, UNKNOWN_FENCE].contains(&lease.fence) =>
        {
            if claimant.released {
                return ReleaseReply::NotHeld;
            }
            if let Some(started) = state.started.as_mut().filter(|s| Some(s.tick) == claimant.tick) {
                started.finished |= finished;
            }
            if end.outcome == RunOutcome::NotStarted {
                state.ask_again();
            }
            let progress = lease.progress.clone();
            let claimant = Claimant { released: true, progress, ..claimant };
            state.remember(now, &claimant, end);
            state.claimant = Some(claimant);
            state.mark_done(now, end);
            ReleaseReply::Released
        }
        _ if lease.fence > state.fence => {
            state.restore(now, lease, lease.until, true, finished);
            if let Some(claimant) = state.claimant.clone() {
                state.remember(now, &claimant, end);
            }
            state.mark_done(now, end);
            ReleaseReply::Restored
        }
        _ => {
            // The lease's tick was started, whatever the store has forgotten since. Of an abandoned claim
            // nobody knows, and it started nothing.
            if lease.fence != UNKNOWN_FENCE {
                state.raise_mark(now, lease);
            }
            ReleaseReply::NotHeld
        }
    }
}

/// What is known of the job. A run whose lease is over without a word has crashed, though nobody has recorded it.
pub fn history(state: &State, now: Timestamp) -> History {
    let mut state = state.clone();
    state.drop_expired(now);
    let current = match &state.claimant {
        Some(run) if !run.released && run.until > now => Some(CurrentRun {
            tick: run.tick,
            server: run.server.to_string(),
            fence: state.fence,
            attempt: run.attempt,
            started: run.since,
            until: run.until,
            progress: run.progress.clone(),
        }),
        _ => None,
    };
    if current.is_none() {
        state.record_crash(usize::MAX);
    }
    History {
        current,
        runs: state.runs.into(),
        skips: state.skips.into(),
        stats: state.stats,
        paused: state.paused,
        registered: state.registered,
        request: state.request,
    }
}

/// When an extended lease ends. A late copy of an extension comes from a holder who had not heard of the newest one yet:
/// it shortens nothing that the holder relies on since.
fn not_before(until: Timestamp, known: Timestamp, lease: &Lease) -> Timestamp {
    if lease.until < known { until.max(known) } else { until }
}

/// Whole milliseconds, rounded up, because that is what Redis can expire a key by.
fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let micros = now.plus(ttl).as_micros();
    Timestamp::from_micros(micros.saturating_add(999).div_euclid(1000).saturating_mul(1000))
}
