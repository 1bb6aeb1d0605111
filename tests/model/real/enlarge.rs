//! From small values to those of the crate.

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::fleet::LeaseKind;
use jobs::history::Skip;
use jobs::schedule::Missed;
use jobs::store::{
    Change, Claim, ClaimPurpose, EndedLease, FenceChange, FencedLease, JobRecords, KeyState, Lease,
    LockChange, Look, Pause, Record, RegisteredSchedule, RunDetails, SharedLock, StartedTick, TickClaim,
    TickMark, Trigger,
};

use super::{MARK, Real, duration, timestamp, version};
use crate::small::{
    ANY_TIME, Ask, Micros, NEVER, NO_TICK, NO_TOKEN, SmallChange, SmallFence, SmallLease, SmallLock,
    SmallLockChange, SmallLook, SmallRecord, SmallState, Tick, Token,
};

impl Real {
    pub(super) fn name(&self, token: Token) -> Arc<str> {
        self.tokens[usize::from(token)].clone()
    }

    pub(super) fn kind(&self) -> LeaseKind {
        if self.policy.is_manual { LeaseKind::Lock } else { LeaseKind::Run }
    }

    pub(super) fn lock(&self, lock: SmallLock) -> SharedLock {
        SharedLock { token: self.name(lock.token), until: Some(timestamp(lock.until)) }
    }

    pub(super) fn tick(&self, tick: Tick) -> Timestamp {
        timestamp(self.policy.due_of(tick))
    }

    pub(super) fn claim(&self, ask: Ask) -> Claim {
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
            details: self.details(),
        }
    }

    fn details(&self) -> RunDetails {
        RunDetails { pause_after: self.policy.pause_after, ..RunDetails::default() }
    }

    /// A pause that an operator has to end. Who, why and since when, no decision reads.
    pub(super) fn pause(&self) -> Pause {
        let since = Timestamp::default();
        Pause { by: self.operator.clone(), reason: None, since, until: None, all: false }
    }

    pub(super) fn lease(&self, lease: SmallLease) -> Lease {
        Lease {
            token: self.name(lease.token),
            server: self.server.clone(),
            kind: self.kind(),
            tick: (lease.tick != NO_TICK).then(|| self.tick(lease.tick)),
            attempt: lease.attempt.into(),
            takeovers: lease.takeovers.into(),
            request: None,
            trigger: Trigger::default(),
            details: self.details(),
            fence: lease.fence.into(),
            since: Timestamp::default(),
            until: timestamp(lease.until),
            ttl: duration(self.policy.ttl),
            progress: None,
            reported: None,
        }
    }

    pub(super) fn look(&self, look: &SmallLook) -> Look {
        let record = look.record.map(|record| self.record(&record));
        let lock = look.lock.map(|lock| self.lock(lock));
        Record::look(record.as_ref(), lock.as_ref(), timestamp(look.now))
    }

    pub(super) fn record(&self, record: &SmallRecord) -> Record {
        Record {
            version: version(record.version).expect("a record has a version"),
            fence: record.fence.into(),
            state: Arc::new(self.state(&record.state)),
            records: JobRecords::default(),
            lease: record.lease.map(|lease| FencedLease {
                fence: lease.fence.into(),
                token: if lease.token == NO_TOKEN { "".into() } else { self.name(lease.token) },
                finished: lease.finished.then_some(MARK),
            }),
        }
    }

    pub(super) fn state(&self, state: &SmallState) -> KeyState {
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
            pause: state.paused.then(|| self.pause()),
            registered: state.registered.map(registered),
            broken_until: state.broken_until.map(timestamp),
            expires: state.expires.map(timestamp),
            ..KeyState::default()
        }
    }

    pub(super) fn change(&self, change: &SmallChange) -> Change {
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
            ends_lease: change.ends_lease.map(|is_finished| EndedLease { is_finished }),
            ..Change::default()
        }
    }
}
