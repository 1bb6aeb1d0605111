//! How a step is sent, and what its answer is taken for.

use std::collections::BTreeSet;

use redis::RedisError;

use super::super::{Claim, ClaimReply, Stamped, StoreError, StoreErrorKind, Verdict, What, model};
use super::reply::{self, Reply};
use super::script::{self, Answer, Call, Script, Wait};
use super::{RedisStore, arguments, trouble};

impl RedisStore {
    pub(super) async fn step<T>(
        &self,
        step: &'static str,
        script: &Script,
        keys: &[String],
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        let call = Call { script, keys, args: &args, wait: None };
        let answer = self.way.run(&call).await;
        let answer = answer.map_err(|error| self.trouble(step, &error, Some(script)))?;
        Reply::stamped(answer.value, read).ok_or_else(|| self.unreadable(step))
    }

    /// Repeats a claim that was won, and has the replicas confirm it. The repetition writes the lock, or the slot, again,
    /// over the connection that waits: whoever has that has all that the claim wrote before.
    async fn confirm(&self, key: &str, claim: &Claim) -> Result<Stamped<Verdict>, StoreError> {
        let (script, args) = claiming(claim);
        // Several such waits must fit into the time that the caller has for a request.
        let within = (self.timeouts.response / 4).min(claim.ttl / 12);
        let wait = Some(Wait { replicas: self.wait_replicas, within });
        let call = Call { script, keys: &self.keys.of_job(key), args: &args, wait };
        let answer = self.waiting.run(&call).await;
        let answer = answer.map_err(|error| self.trouble("claim", &error, Some(call.script)))?;
        let Answer { value, replicas } = answer;
        let verdict = Reply::stamped(value, |reply| reply::claim(reply, &claim.what));
        let verdict = verdict.ok_or_else(|| self.unreadable("claim"))?;
        if fence_of(&verdict).is_some() && replicas < self.wait_replicas {
            let cause = format!("only {replicas} of {} replicas have the claim", self.wait_replicas);
            return Err(StoreError::new(StoreErrorKind::NotReplicated, "claim", &self.location, cause));
        }
        Ok(verdict)
    }

    pub(super) async fn job_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        key: &str,
        mut args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        args.insert(0, model::FORMAT.to_string());
        self.key_step(step, script, key, args, read).await
    }

    pub(super) async fn key_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        key: &str,
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        self.step(step, script, &self.keys.of_job(key), args, read).await
    }

    /// The keys of which a lock or a slot may be held.
    pub(super) async fn held_keys(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut keys = BTreeSet::new();
        for pattern in self.keys.patterns() {
            let names = self.way.names(&pattern).await;
            let names = names.map_err(|error| self.trouble("locks", &error, None))?;
            keys.extend(names.iter().filter_map(|name| self.keys.key_of(name)).map(str::to_owned));
        }
        Ok(keys)
    }

    pub(super) async fn fleet_step<T>(
        &self,
        step: &'static str,
        script: &Script,
        args: Vec<String>,
        read: impl FnOnce(&mut Reply) -> Option<T> + Send,
    ) -> Result<Stamped<T>, StoreError> {
        self.step(step, script, &self.keys.of_fleet(), args, read).await
    }

    pub(super) fn trouble(
        &self,
        step: &'static str,
        error: &RedisError,
        script: Option<&Script>,
    ) -> StoreError {
        StoreError::new(trouble::kind_of(error), step, &self.location, trouble::describe(error, script))
    }

    pub(super) fn unreadable(&self, step: &'static str) -> StoreError {
        StoreError::new(StoreErrorKind::Unreadable, step, &self.location, "its answer makes no sense")
    }

    /// Claims, and has the replicas confirm what was won, if they are waited for.
    pub(super) async fn claim_and_confirm(
        &self,
        key: &str,
        claim: &Claim,
    ) -> Result<Stamped<Verdict>, StoreError> {
        let (script, args) = claiming(claim);
        let read = |reply: &mut Reply| reply::claim(reply, &claim.what);
        let first = self.key_step("claim", script, key, args, read).await?;
        let Some(fence) = fence_of(&first).filter(|_| self.wait_replicas > 0) else { return Ok(first) };
        let confirmed = self.confirm(key, claim).await?;
        match fence_of(&confirmed) {
            // Of the same lease only the first answer tells everything.
            Some(again) if again == fence => Ok(first),
            // Another server than the one that was asked first: whatever it has, the other's replicas may not.
            Some(_) => {
                let cause =
                    "the claim was confirmed by another master than it was made on; a failover goes on";
                Err(StoreError::new(StoreErrorKind::NotReplicated, "claim", &self.location, cause))
            }
            None => Ok(confirmed),
        }
    }
}

/// The script of a claim, and what it is told.
fn claiming(claim: &Claim) -> (&'static Script, Vec<String>) {
    if let What::Slot(of) = claim.what {
        return (&script::SLOT_CLAIM, arguments::of_slot_claim(claim, of));
    }
    let mut args = arguments::of_claim(claim);
    args.insert(0, model::FORMAT.to_string());
    (&script::CLAIM, args)
}

/// The fence of a claim that was won.
fn fence_of(verdict: &Stamped<Verdict>) -> Option<i64> {
    match &verdict.reply.decision {
        ClaimReply::Won(won) => Some(won.fence),
        _ => None,
    }
}
