//! Swaps: one script, in one round trip.

use redis::{Cmd, Value};

use super::super::{
    FenceChange, JobRecord, LockChange, StoreError, StoreErrorKind, Swap, SwapReply, Swapped, to_ascii_json,
};
use super::keys::JobKeys;
use super::script::{self, Answer, Wait};
use super::{RedisStore, look, token};
use crate::Timestamp;

/// The indices in KEYS of swap.lua.
const RUNS: u8 = 3;
const SKIPS: u8 = 4;

impl RedisStore {
    pub(super) async fn send_swap(&self, key: &str, swap: &Swap) -> Result<SwapReply, StoreError> {
        let keys = self.keys.of_job(key);
        let arguments = Arguments::of(swap);
        let wait = self.wait_for(swap);
        // A connection that waits for replicas answers nothing else meanwhile.
        let route = if wait.is_some() { &self.waiting } else { &self.route };
        let answer = route
            .exchange(&keys.lock, |connection, asking| {
                script::SWAP.run(connection, asking, wait, |command| arguments.add_to(command, &keys))
            })
            .await;
        let Answer { value, replicas } =
            answer.map_err(|error| self.trouble("swap", &error, Some(&script::SWAP)))?;
        match self.read_reply(key, value)? {
            SwapReply::Swapped(_) if wait.is_some_and(|wait| replicas < wait.replicas) => {
                let cause = format!("only {replicas} of {} replicas have the lease", self.wait_replicas);
                Err(StoreError::new(StoreErrorKind::NotReplicated, "swap", &self.location, cause))
            }
            reply => Ok(reply),
        }
    }

    fn wait_for(&self, swap: &Swap) -> Option<Wait> {
        if self.wait_replicas == 0 || !swap.change.grants_lease {
            return None;
        }
        // Several such waits must fit into the time that the caller has for a request.
        let ttl = swap.change.state.as_ref().and_then(|state| Some(state.claimant.as_ref()?.ttl));
        let within = self.timeouts.response / 4;
        Some(Wait { replicas: self.wait_replicas, within: ttl.map_or(within, |ttl| within.min(ttl / 12)) })
    }

    fn read_reply(&self, key: &str, value: Value) -> Result<SwapReply, StoreError> {
        let nonsense = || self.unreadable("swap", "the answer makes no sense");
        let Value::Array(parts) = value else { return Err(nonsense()) };
        let mut parts = parts.into_iter();
        match parts.next() {
            Some(Value::Int(0)) => {
                let look = look::read(parts).map_err(|misread| self.misread("swap", key, misread))?;
                Ok(SwapReply::Changed(look))
            }
            Some(Value::Int(1)) => {
                let mut next = || parts.next().unwrap_or(Value::Nil);
                let (now, version, fence) = (look::time_of(next()), next(), next());
                let version = look::text_of(&version).and_then(|version| version.parse().ok());
                let fence = look::text_of(&fence).and_then(|fence| fence.parse().ok());
                let (Some(now), Some(version), Some(fence)) = (now, version, fence) else {
                    return Err(nonsense());
                };
                Ok(SwapReply::Swapped(Swapped { now, version, fence }))
            }
            _ => Err(nonsense()),
        }
    }
}

/// A swap as swap.lua takes it. Its texts are made once, even if the script has to be sent twice.
struct Arguments<'a> {
    swap: &'a Swap,
    expected_lock: Vec<u8>,
    state: String,
    records: Vec<(u8, String)>,
}

impl<'a> Arguments<'a> {
    fn of(swap: &'a Swap) -> Self {
        let record = |record: &JobRecord| match record {
            JobRecord::Run(run) => (RUNS, to_ascii_json(run)),
            JobRecord::Skip(skip) => (SKIPS, to_ascii_json(skip)),
        };
        Self {
            swap,
            expected_lock: token::expected(swap.expected_lock.as_deref()),
            state: swap.change.state.as_ref().map(|state| state.to_json()).unwrap_or_default(),
            records: swap.change.records.iter().map(record).collect(),
        }
    }

    fn add_to(&self, command: &mut Cmd, keys: &JobKeys) {
        let Swap { expected, nonce, change, .. } = self.swap;
        let JobKeys { lock, record, runs, skips, awaited } = keys;
        command.arg(5).arg(lock).arg(record).arg(runs).arg(skips).arg(awaited);

        command.arg(expected.map(|version| version.to_string()).unwrap_or_default()).arg(&self.expected_lock);
        command.arg(change.not_before.map_or(i64::MIN, Timestamp::as_micros));
        command.arg(change.not_after.map_or(i64::MAX, Timestamp::as_micros));
        command.arg(format!("{nonce:016x}")).arg(&self.state);
        let expires = change.state.as_ref().and_then(|state| state.expires);
        command.arg(expires.map(|expires| expires.as_micros().to_string()).unwrap_or_default());
        match change.fence {
            FenceChange::Keep => command.arg("keep"),
            FenceChange::Next => command.arg("next"),
            FenceChange::AtLeast(fence) => command.arg(fence),
        };
        match &change.lock {
            LockChange::Leave => command.arg("").arg(""),
            LockChange::Delete => command.arg("-").arg(""),
            // Redis keeps a key up to and including the millisecond it is told, and takes only positive ones.
            LockChange::Set { token, until } => {
                command.arg(["=", token].concat()).arg((until.as_micros() / 1000 - 1).max(1))
            }
        };
        // No list in Redis is longer.
        command.arg(u32::try_from(change.keep).unwrap_or(u32::MAX)).arg(u8::from(change.notify));
        for (list, entry) in &self.records {
            command.arg(list).arg(entry);
        }
    }
}
