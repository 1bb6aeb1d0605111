//! Swaps: one script, in one round trip.

use std::time::Duration;

use redis::{Cmd, RedisResult, Value, from_redis_value_ref};

use super::{look, script, token};
use crate::Timestamp;
use crate::store::redis::RedisStore;
use crate::store::{
    FenceChange, JobRecord, LockChange, StoreError, StoreErrorKind, Swap, SwapReply, Swapped, Version,
};

impl RedisStore {
    pub(crate) async fn send_swap(&self, key: &str, swap: &Swap) -> Result<SwapReply, StoreError> {
        let keys = self.keys.of_job(key);
        let wait = self.wait_for(swap);
        // A connection that waits for replicas answers nothing else meanwhile.
        let route = if wait.is_some() { &self.waiting } else { &self.route };
        let talk = |connection, asking| {
            let arguments = |command: &mut Cmd| add_arguments(command, &keys, swap);
            script::SWAP.run(connection, asking, wait.as_ref(), arguments)
        };
        let answer = route.exchange(&keys[0], talk).await;
        let answer =
            answer.and_then(|(value, replicas)| Ok((self.read_reply(key, swap.nonce, value)?, replicas)));
        match answer.map_err(|error| self.error("swap", &error))? {
            (SwapReply::Swapped(_), replicas) if wait.is_some() && replicas < self.wait_replicas => {
                let cause = format!("only {replicas} of {} replicas have the lease", self.wait_replicas);
                Err(StoreError::new(StoreErrorKind::NotReplicated, "swap", &self.location, cause))
            }
            (reply, _) => Ok(reply),
        }
    }

    /// Returns the command that waits for the replicas, if the swap grants a lease.
    fn wait_for(&self, swap: &Swap) -> Option<Cmd> {
        if self.wait_replicas == 0 || !swap.change.grants_lease {
            return None;
        }
        // Several waits must fit into the response timeout of the caller.
        let claimant = swap.change.state.as_ref().and_then(|state| state.claimant.as_ref());
        let ttl = claimant.map_or(Duration::MAX, |claimant| claimant.ttl);
        let within = (self.timeouts.response / 4).min(ttl / 12);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.wait_replicas).arg(within.as_millis().max(1));
        Some(wait)
    }

    fn read_reply(&self, key: &str, nonce: u64, value: Value) -> RedisResult<SwapReply> {
        let parts = value.into_sequence().unwrap_or_default();
        if let [at, fence] = &parts[..] {
            let now = Timestamp::from_micros(from_redis_value_ref(at)?);
            let version = Version { at: now, nonce };
            return Ok(SwapReply::Swapped(Swapped { now, version, fence: from_redis_value_ref(fence)? }));
        }
        Ok(SwapReply::Changed(look::read_with_expiry(&self.keys, key, parts)?))
    }
}

/// Adds the keys, and a swap as swap.lua takes it.
fn add_arguments(command: &mut Cmd, keys: &[String; 5], swap: &Swap) {
    let Swap { expected, expected_lock, nonce, change } = swap;
    let [lock, record, awaited, runs, skips] = keys;
    let mut named = vec![lock, record, awaited];
    match &change.state {
        None => named.extend([runs, skips]),
        Some(_) => named.extend(change.records.iter().map(|record| match record {
            JobRecord::Run(_) => runs,
            JobRecord::Skip(_) => skips,
        })),
    }
    command.arg(named.len()).arg(named);

    command.arg(expected.map(|version| version.to_string()).unwrap_or_default());
    command.arg(token::expected(expected_lock.as_deref()));
    command.arg(change.not_before.map_or(i64::MIN, Timestamp::as_micros));
    command.arg(change.not_after.map_or(i64::MAX, Timestamp::as_micros));
    command.arg(format!("{nonce:016x}"));
    command.arg(change.state.as_ref().map(|state| state.to_json()).unwrap_or_default());
    let expires = change.state.as_ref().and_then(|state| state.expires);
    command.arg(expires.map(|expires| expires.as_micros().to_string()).unwrap_or_default());
    match change.fence {
        FenceChange::Keep => command.arg("keep"),
        FenceChange::Next => command.arg("next"),
        FenceChange::AtLeast(fence) => command.arg(fence),
    };
    match &change.lock {
        LockChange::Leave => command.arg("").arg(""),
        LockChange::Delete => command.arg("").arg("-"),
        // Redis keeps a key up to and including this millisecond, and accepts only positive ones.
        LockChange::Set { token, until } => {
            command.arg(token.as_ref()).arg((until.as_micros() / 1000 - 1).max(1))
        }
    };
    // No list in Redis is longer.
    command.arg(u32::try_from(change.keep).unwrap_or(u32::MAX)).arg(u8::from(change.notify));
    if change.state.is_some() {
        command.arg(change.records.iter().map(JobRecord::to_json).collect::<Vec<_>>());
    }
}
