//! The crate's own decisions and swaps, called with small values.
//!
//! A small value has less than the real one. [`Real::forget`] lists what is dropped, and [`Real::small_state`] panics if
//! anything else would be lost on the way back. The functions are pure, so each is called once per distinct argument.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::Timestamp;
use jobs::fleet::LeaseKind;
use jobs::history::{RunOutcome, Skip, Stats};
use jobs::schedule::Missed;
use jobs::store::decide::{self, Decision};
use jobs::store::{
    Change, Claim, ClaimDecision, ClaimPurpose, Ending, ExtendReply, FenceChange, KeyState, Lease,
    LockChange, Look, Record, RegisteredSchedule, ReleaseReply, SharedLock, StartedTick, Swap, SwapReply,
    TickClaim, TickMark, Version,
};
use singleton_jobs_policy::timing::{margin, request_timeout};

use crate::configuration::Policy;
use crate::small::{
    ANY_TIME, Answer, Ask, Contents, End, FRESH, Message, Micros, NEVER, NO_RECORD, NO_TICK, NOBODY,
    SmallChange, SmallDecision, SmallFence, SmallLease, SmallLock, SmallLockChange, SmallLook, SmallMark,
    SmallRecord, SmallStart, SmallState, SmallSwap, Tick, Token, VersionNumber,
};

/// A whole second.
pub const SECOND: Micros = 1_000_000;

const SCHEDULE: &str = "every 6s";
const SERVER: &str = "server";
const OPERATOR: &str = "operator";

/// The rules of the crate, for one policy.
pub struct Real {
    policy: Policy,
    server: Arc<str>,
    operator: Arc<str>,
    schedule: Arc<str>,
    tokens: Vec<Arc<str>>,
    decisions: Mutex<HashMap<(SmallLook, Message), SmallDecision>>,
    swaps: Mutex<HashMap<(Contents, Micros, SmallSwap), Option<Contents>>>,
}

fn timestamp(micros: Micros) -> Timestamp {
    Timestamp::from_micros(micros.into())
}

fn micros(timestamp: Timestamp) -> Micros {
    Micros::try_from(timestamp.as_micros()).expect("an instant of the model")
}

fn duration(micros: Micros) -> Duration {
    Duration::from_micros(micros.try_into().expect("a positive duration"))
}

fn version(number: VersionNumber) -> Option<Version> {
    (number != NO_RECORD).then(|| Version { at: timestamp(number.into()), nonce: number.into() })
}

fn small_token(token: &str) -> Token {
    let number = token.strip_prefix("token-").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{token} is no token of this model"))
}

fn small_lock(lock: &SharedLock) -> SmallLock {
    SmallLock { token: small_token(&lock.token), until: lock.until.map_or(NEVER, micros) }
}

impl Real {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            server: SERVER.into(),
            operator: OPERATOR.into(),
            schedule: SCHEDULE.into(),
            tokens: (0..=255).map(|number| format!("token-{number}").into()).collect(),
            decisions: Mutex::default(),
            swaps: Mutex::default(),
        }
    }

    /// The response timeout: a claim is not applied later than this after its look.
    pub fn response_timeout(&self) -> Micros {
        micros(Timestamp::default() + request_timeout(duration(self.policy.ttl)))
    }

    /// The time before the end of its lease at which a holder stops relying on it.
    pub fn margin(&self) -> Micros {
        micros(Timestamp::default() + margin(duration(self.policy.ttl)))
    }

    /// Decides a message on a look.
    pub fn decide(&self, look: &SmallLook, message: Message) -> SmallDecision {
        // No decision here reads the version.
        let known =
            SmallLook { record: look.record.map(|record| SmallRecord { version: FRESH, ..record }), ..*look };
        if let Some(decision) = self.decisions.lock().expect("no panic").get(&(known, message)) {
            return *decision;
        }
        let decision = self.decide_anew(&known, message);
        self.decisions.lock().expect("no panic").insert((known, message), decision);
        decision
    }

    fn decide_anew(&self, look: &SmallLook, message: Message) -> SmallDecision {
        let look = self.look(look);
        let of = |answer, change: Option<Change>| SmallDecision {
            answer,
            change: change.map(|change| self.small_change(change)),
        };
        match message {
            Message::Claim(ask) => {
                let Decision { reply, change } = decide::claim(&look, &self.claim(ask));
                of(self.claim_answer(reply.decision), change)
            }
            Message::Extend(lease) => {
                let Decision { reply, change } = decide::extend(&look, &self.lease(lease));
                let answer = match reply {
                    ExtendReply::Kept { until, .. } => Answer::Kept(micros(until)),
                    ExtendReply::Restored(until) => Answer::Restored(micros(until)),
                    _ => Answer::Lost,
                };
                of(answer, change)
            }
            Message::Release(lease, end) => {
                let outcome = match end {
                    End::Succeeded => RunOutcome::Succeeded,
                    End::LeaseLost => RunOutcome::LeaseLost,
                    End::NotStarted => RunOutcome::NotStarted,
                };
                let ending = Ending::of(outcome, 1);
                let Decision { reply, change } = decide::release(&look, &self.lease(lease), &ending);
                let answer = match reply {
                    ReleaseReply::Released => Answer::Released,
                    ReleaseReply::Restored => Answer::ReleaseRestored,
                    _ => Answer::NotHeld,
                };
                of(answer, change)
            }
            Message::Break(fence, token) => {
                let lock = (token != NOBODY).then(|| self.lock(SmallLock { token, until: NEVER }));
                let seen = Look { fence: fence.into(), lock, ..Look::nothing(look.now) };
                let Decision { change, .. } = decide::break_lock(&look, "key", &seen, &self.operator, 1);
                of(Answer::Operated, change)
            }
            Message::SetPaused(paused) => of(Answer::Operated, decide::set_paused(&look, paused).change),
        }
    }

    /// Applies a swap; `None` if the store refuses it.
    pub fn swap(&self, contents: &Contents, now: Micros, swap: &SmallSwap) -> Option<Contents> {
        let arguments = (*contents, now, *swap);
        if let Some(after) = self.swaps.lock().expect("no panic").get(&arguments) {
            return *after;
        }
        let after = self.swap_anew(contents, now, swap);
        self.swaps.lock().expect("no panic").insert(arguments, after);
        after
    }

    fn swap_anew(&self, contents: &Contents, now: Micros, swap: &SmallSwap) -> Option<Contents> {
        let mut record = contents.record.map(|record| Record {
            version: version(record.version).expect("a record has a version"),
            fence: record.fence.into(),
            state: Arc::new(self.state(&record.state)),
            records: jobs::store::JobRecords::default(),
        });
        let mut lock = contents.lock.map(|lock| self.lock(lock));
        let swap = Swap {
            expected: version(swap.expected),
            expected_lock: (swap.expected_lock != NOBODY).then(|| self.name(swap.expected_lock)),
            nonce: FRESH.into(),
            change: self.change(&swap.change),
        };
        let shared = self.policy.shares_lock.then_some(&mut lock);
        let SwapReply::Swapped(swapped) = Record::swap(&mut record, shared, timestamp(now), &swap) else {
            return None;
        };
        let record = record.map(|record| {
            assert_eq!(record.version, swapped.version);
            let taken = (1..FRESH).filter_map(version).any(|taken| taken == record.version);
            assert!(!taken, "a version was used twice");
            SmallRecord {
                version: FRESH,
                fence: record.fence.try_into().expect("a fence of the model"),
                state: self.small_state(&record.state),
            }
        });
        Some(Contents { record, lock: lock.map(|lock| small_lock(&lock)) })
    }

    // From small to real.

    fn name(&self, token: Token) -> Arc<str> {
        self.tokens[usize::from(token)].clone()
    }

    fn kind(&self) -> LeaseKind {
        if self.policy.is_manual { LeaseKind::Lock } else { LeaseKind::Run }
    }

    fn lock(&self, lock: SmallLock) -> SharedLock {
        SharedLock { token: self.name(lock.token), until: Some(timestamp(lock.until)) }
    }

    fn tick(&self, tick: Tick) -> Timestamp {
        timestamp(self.policy.due_of(tick))
    }

    fn claim(&self, ask: Ask) -> Claim {
        let grace = if ask.only_takes_over { 0 } else { self.policy.grace };
        let tick = || TickClaim {
            tick: self.tick(ask.tick),
            previous: None,
            delay: Duration::ZERO,
            grace: duration(grace),
            only_takes_over: ask.only_takes_over,
            overlap: self.policy.overlap,
            takeovers: self.policy.takeovers.into(),
            missed: self.policy.missed,
            schedule: self.schedule.clone(),
            // Every server was started long before.
            known_for: Duration::from_secs(3600),
        };
        Claim {
            token: self.name(ask.token),
            server: self.server.clone(),
            ttl: duration(self.policy.ttl),
            what: match (self.policy.is_manual, ask.tick) {
                (true, _) => ClaimPurpose::Lock,
                (false, NO_TICK) => ClaimPurpose::Now,
                (false, _) => ClaimPurpose::Tick(tick()),
            },
            remember: 1,
        }
    }

    fn lease(&self, lease: SmallLease) -> Lease {
        Lease {
            token: self.name(lease.token),
            server: self.server.clone(),
            kind: self.kind(),
            tick: (lease.tick != NO_TICK).then(|| self.tick(lease.tick)),
            attempt: lease.attempt.into(),
            takeovers: lease.takeovers.into(),
            request: None,
            fence: lease.fence.into(),
            since: Timestamp::default(),
            until: timestamp(lease.until),
            ttl: duration(self.policy.ttl),
            progress: None,
            reported: None,
        }
    }

    fn look(&self, look: &SmallLook) -> Look {
        let now = timestamp(look.now);
        let lock = look.lock.map(|lock| self.lock(lock));
        match &look.record {
            None => Look { lock, ..Look::nothing(now) },
            Some(record) => Look {
                now,
                version: version(record.version),
                fence: record.fence.into(),
                state: Arc::new(self.state(&record.state)),
                lock,
            },
        }
    }

    fn state(&self, state: &SmallState) -> KeyState {
        let registered = |at: Micros| RegisteredSchedule {
            schedule: self.schedule.clone(),
            at: timestamp(at),
            server: self.server.clone(),
            begun: timestamp(at),
            used: timestamp(at),
            runs_missed_since: (self.policy.missed == Missed::RunOnce).then(|| timestamp(at)),
        };
        KeyState {
            claimant: state.claimant.map(|lease| self.lease(lease)),
            released: state.released,
            broken_by: state.broken.then(|| self.operator.clone()),
            started: state.started.map(|started| StartedTick {
                tick: self.tick(started.tick),
                attempt: started.attempt.into(),
                finished: started.finished,
                takeovers: started.takeovers.into(),
            }),
            mark: state.mark.map(|mark| TickMark {
                tick: self.tick(mark.tick),
                skip: mark.skipped.then_some(Skip::Held),
                server: self.server.clone(),
                at: Timestamp::default(),
            }),
            paused: state.paused,
            registered: state.registered.map(registered),
            broken_until: state.broken_until.map(timestamp),
            expires: state.expires.map(timestamp),
            ..KeyState::default()
        }
    }

    fn change(&self, change: &SmallChange) -> Change {
        Change {
            not_before: (change.not_before != ANY_TIME).then(|| timestamp(change.not_before)),
            not_after: (change.not_after != NEVER).then(|| timestamp(change.not_after)),
            state: change.state.map(|state| Arc::new(self.state(&state))),
            fence: match change.fence {
                SmallFence::Keep => FenceChange::Keep,
                SmallFence::Next => FenceChange::Next,
                SmallFence::AtLeast(fence) => FenceChange::AtLeast(fence.into()),
            },
            lock: match change.lock {
                SmallLockChange::Leave => LockChange::Leave,
                SmallLockChange::Delete => LockChange::Delete,
                SmallLockChange::Set(lock) => {
                    LockChange::Set { token: self.name(lock.token), until: timestamp(lock.until) }
                }
            },
            ..Change::default()
        }
    }

    // From real to small.

    fn small_tick(&self, tick: Timestamp) -> Tick {
        self.policy.tick_at(micros(tick))
    }

    fn small_lease(&self, lease: &Lease) -> SmallLease {
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
    fn forget(&self, state: &KeyState) -> KeyState {
        let mut state = state.clone();
        if let Some(lease) = &mut state.claimant {
            (lease.server, lease.since) = (self.server.clone(), Timestamp::default());
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
        state.missed.clear();
        state.stats = Stats::default();
        // Only `forget` reads it.
        state.claimable_until = None;
        state
    }

    fn small_state(&self, state: &KeyState) -> SmallState {
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
            paused: state.paused,
            registered: state.registered.as_ref().map(|registered| micros(registered.at)),
            broken_until: state.broken_until.map(micros),
            expires: state.expires.map(micros),
        };
        assert_eq!(self.state(&small), state, "the small state has lost a part of the real one");
        small
    }

    fn small_change(&self, change: Change) -> SmallChange {
        SmallChange {
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

    fn claim_answer(&self, decision: ClaimDecision) -> Answer {
        match decision {
            ClaimDecision::Won(won) => Answer::Won(self.small_lease(&won.lease)),
            ClaimDecision::Lost => Answer::WasLost,
            ClaimDecision::Early(_) => Answer::Early,
            ClaimDecision::Taken(_) => Answer::Taken,
            ClaimDecision::Superseded(_) => Answer::Superseded,
            ClaimDecision::Ahead(_) => Answer::Ahead,
            ClaimDecision::Paused => Answer::Paused,
            ClaimDecision::Late(_) => Answer::Late,
            ClaimDecision::Held(_) => Answer::Held,
            other => panic!("no server of this model gets {other:?}"),
        }
    }
}
