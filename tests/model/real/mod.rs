//! The crate's own decisions and swaps, called with small values.
//!
//! A small value has less than the real one. [`Real::forget`] lists what is dropped, and [`Real::small_state`] panics if
//! anything else would be lost on the way back. The functions are pure, so each is called once per distinct argument.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::store::decide::{self, Decision};
use jobs::store::{
    Change, Ending, ExtendReply, FinishMark, LeaseId, Look, NotCurrent, PauseOrder, Record, ReleaseReply,
    SharedLock, Swap, SwapReply, Version,
};
use singleton_jobs_policy::timing::{margin, request_timeout};

use crate::configurations::configuration::Policy;
use crate::small::{
    Answer, Contents, End, FRESH, Message, Micros, NEVER, NO_RECORD, NO_TOKEN, SmallDecision,
    SmallFencedLease, SmallLock, SmallLook, SmallRecord, SmallSwap, Token, VersionNumber,
};

mod enlarge;
mod reduce;

/// A whole second.
pub const SECOND: Micros = 1_000_000;

const SCHEDULE: &str = "0 0 1 1 * UTC";
const SERVER: &str = "server";
const OPERATOR: &str = "operator";

/// Only whether there is one is read by a decision.
const MARK: FinishMark = FinishMark { at: Timestamp::from_micros(0), done_until: None };

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
            Message::Release(lease, end, finish_called) => {
                let outcome = match end {
                    End::Succeeded => RunOutcome::Succeeded,
                    End::LeaseLost => RunOutcome::LeaseLost,
                    End::NotStarted => RunOutcome::NotStarted,
                };
                let ending = Ending { finish_called, ..Ending::of(outcome, 1) };
                let Decision { reply, change } = decide::release(&look, &self.lease(lease), &ending);
                let answer = match reply {
                    ReleaseReply::Released => Answer::Released,
                    ReleaseReply::Restored => Answer::ReleaseRestored,
                    _ => Answer::NotHeld,
                };
                of(answer, change)
            }
            Message::Break(fence, token) => {
                let lock = (token != NO_TOKEN).then(|| self.lock(SmallLock { token, until: NEVER }));
                let seen = Look { fence: fence.into(), lock, ..Look::nothing(look.now) };
                let Decision { change, .. } = decide::break_lock(&look, "key", &seen, &self.operator, 1);
                of(Answer::Operated, change)
            }
            Message::SetPaused(true) => {
                let order = PauseOrder { by: self.operator.clone(), reason: None, lasts: None, all: false };
                of(Answer::Operated, decide::pause(&look, &order, 1).change)
            }
            Message::SetPaused(false) => {
                of(Answer::Operated, decide::resume(&look, &self.operator, false, 1).change)
            }
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
        let mut record = contents.record.map(|record| self.record(&record));
        let mut lock = contents.lock.map(|lock| self.lock(lock));
        let swap = Swap {
            expected: version(swap.expected),
            expected_lock: (swap.expected_lock != NO_TOKEN).then(|| self.name(swap.expected_lock)),
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
            SmallRecord { version: FRESH, ..self.small_record(&record) }
        });
        Some(Contents { record, lock: lock.map(|lock| small_lock(&lock)) })
    }

    /// Commits a transaction that marks the work of a lease as finished.
    pub fn finish(&self, contents: &Contents, lease: SmallFencedLease) -> Result<Contents, NotCurrent> {
        let mut record = contents.record.map(|record| self.record(&record));
        let token = self.name(lease.token);
        let lease = LeaseId { token: &token, fence: lease.fence.into() };
        Record::finish(&mut record, lease, MARK)?;
        let version = contents.version();
        let record = record.map(|record| SmallRecord { version, ..self.small_record(&record) });
        Ok(Contents { record, ..*contents })
    }
}
