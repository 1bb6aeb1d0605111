//! From the values of the crate to small ones.

use jobs::Timestamp;
use jobs::history::{RunOutcome, Skip, Stats};
use jobs::schedule::Missed;
use jobs::store::{
    Change, ClaimDecision, FenceChange, JobRecord, KeyState, Lease, LockChange, Record, Trigger,
};

use super::{Real, micros, small_token};
use crate::small::{
    ANY_TIME, Answer, NEVER, NO_RECORD, NO_TICK, NO_TOKEN, Recorded, SmallChange, SmallFence,
    SmallFencedLease, SmallLease, SmallLock, SmallLockChange, SmallMark, SmallRecord, SmallStart, SmallState,
    Tick,
};

impl Real {
    pub(super) fn small_tick(&self, tick: Timestamp) -> Tick {
        self.policy.tick_at(micros(tick))
    }

    pub(super) fn small_lease(&self, lease: &Lease) -> SmallLease {
        SmallLease {
            token: small_token(&lease.token),
            tick: lease.tick.map_or(NO_TICK, |tick| self.small_tick(tick)),
            attempt: lease.attempt.try_into().expect("few attempts"),
            takeovers: lease.takeovers.try_into().expect("few takeovers"),
            fence: lease.fence.try_into().expect("a fence of the model"),
            until: micros(lease.until),
        }
    }

    /// Drops what no decision reads: names and instants that are only shown to people, counts, and the gaps of missed ticks.
    /// Without `missed = "run"` also the instant of the registration, since every server has known the job for long.
    pub(super) fn forget(&self, state: &KeyState) -> KeyState {
        let mut state = state.clone();
        if let Some(lease) = &mut state.claimant {
            (lease.server, lease.since) = (self.server.clone(), Timestamp::default());
            lease.trigger = Trigger::default();
        }
        if let Some(mark) = &mut state.mark {
            (mark.server, mark.at) = (self.server.clone(), Timestamp::default());
            mark.skip = mark.skip.map(|_| Skip::Held);
        }
        if let Some(registered) = &mut state.registered {
            if self.policy.missed == Missed::Skip {
                registered.at = Timestamp::default();
            }
            (registered.begun, registered.used) = (registered.at, registered.at);
        }
        if let Some(pause) = &mut state.pause {
            *pause = self.pause();
        }
        state.missed.clear();
        state.stats = Stats::default();
        // Only `forget` reads it.
        state.claimable_until = None;
        state
    }

    pub(super) fn small_state(&self, state: &KeyState) -> SmallState {
        let state = self.forget(state);
        let small = SmallState {
            claimant: state.claimant.as_ref().map(|lease| self.small_lease(lease)),
            released: state.released,
            broken: state.broken_by.is_some(),
            started: state.started.map(|started| SmallStart {
                tick: self.small_tick(started.tick),
                attempt: started.attempt.try_into().expect("few attempts"),
                takeovers: started.takeovers.try_into().expect("few takeovers"),
                finished: started.finished,
            }),
            mark: state
                .mark
                .as_ref()
                .map(|mark| SmallMark { tick: self.small_tick(mark.tick), skipped: mark.skip.is_some() }),
            paused: state.pause.is_some(),
            registered: state.registered.as_ref().map(|registered| micros(registered.at)),
            broken_until: state.broken_until.map(micros),
            expires: state.expires.map(micros),
        };
        assert_eq!(self.state(&small), state, "the small state has lost a part of the real one");
        small
    }

    pub(super) fn small_record(&self, record: &Record) -> SmallRecord {
        let fence = |fence: i64| fence.try_into().expect("a fence of the model");
        let lease = record.lease.as_ref().filter(|_| self.policy.finishes);
        SmallRecord {
            version: NO_RECORD,
            fence: fence(record.fence),
            state: self.small_state(&record.state),
            lease: lease.map(|lease| SmallFencedLease {
                token: if lease.token.is_empty() { NO_TOKEN } else { small_token(&lease.token) },
                fence: fence(lease.fence),
                finished: lease.finished.is_some(),
            }),
        }
    }

    pub(super) fn small_change(&self, change: Change) -> SmallChange {
        SmallChange {
            records: change.records.iter().find_map(|record| match record {
                JobRecord::Run(run) => Some(match run.outcome {
                    RunOutcome::Succeeded => Recorded::Succeeded,
                    RunOutcome::Committed => Recorded::Committed,
                    _ => Recorded::Other,
                }),
                JobRecord::Skip(_) => None,
            }),
            ends_lease: change.ends_lease.map(|ended| ended.is_finished),
            not_before: change.not_before.map_or(ANY_TIME, micros),
            not_after: change.not_after.map_or(NEVER, micros),
            state: change.state.map(|state| self.small_state(&state)),
            fence: match change.fence {
                FenceChange::Keep => SmallFence::Keep,
                FenceChange::Next => SmallFence::Next,
                FenceChange::AtLeast(fence) => {
                    SmallFence::AtLeast(fence.try_into().expect("a fence of the model"))
                }
            },
            lock: match change.lock {
                LockChange::Leave => SmallLockChange::Leave,
                LockChange::Delete => SmallLockChange::Delete,
                LockChange::Set { token, until } => {
                    SmallLockChange::Set(SmallLock { token: small_token(&token), until: micros(until) })
                }
            },
        }
    }

    pub(super) fn claim_answer(&self, decision: ClaimDecision) -> Answer {
        match decision {
            ClaimDecision::Won(won) => Answer::Won(self.small_lease(&won.lease)),
            ClaimDecision::Lost => Answer::WasLost,
            ClaimDecision::Early(_) => Answer::Early,
            ClaimDecision::Taken(_) => Answer::Taken,
            ClaimDecision::Superseded(_) => Answer::Superseded,
            ClaimDecision::Ahead(_) => Answer::Ahead,
            ClaimDecision::Paused(_) => Answer::Paused,
            ClaimDecision::Late(_) => Answer::Late,
            ClaimDecision::Held(_) => Answer::Held,
            other => panic!("no server of this model gets {other:?}"),
        }
    }
}
