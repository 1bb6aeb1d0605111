//! Effects that are committed with the end of a run happen once: I10.

use super::timeline::{KeyHistory, Timeline, micros};
use super::{Fault, Invariant, Observed, Verdict};
use crate::Timestamp;

/// The effects of one key, and the records of its runs' ends.
#[derive(Debug, Default)]
pub(super) struct EffectHistory {
    committed: Vec<Effect>,
    ends: Vec<RecordedEnd>,
}

#[derive(Debug)]
struct Effect {
    at: u64,
    fence: i64,
    tick: Option<Timestamp>,
    store_time: Timestamp,
    done_until: Option<Timestamp>,
}

#[derive(Debug)]
struct RecordedEnd {
    at: u64,
    fence: i64,
    is_committed: bool,
}

impl EffectHistory {
    pub(super) fn add(&mut self, at: u64, what: &Observed) {
        match what {
            Observed::Committed { lease, tick, store_time, done_until } => self.committed.push(Effect {
                at,
                fence: lease.fence,
                tick: *tick,
                store_time: *store_time,
                done_until: *done_until,
            }),
            Observed::EndRecorded { lease, is_committed } => {
                self.ends.push(RecordedEnd { at, fence: lease.fence, is_committed: *is_committed });
            }
            _ => {}
        }
    }
}

impl Effect {
    /// Whether the earlier effect excludes this one.
    fn repeats(&self, earlier: &Self) -> bool {
        let is_same_tick = self.tick.is_some() && self.tick == earlier.tick;
        let is_done = earlier.done_until.is_some_and(|until| self.store_time < until);
        is_same_tick || is_done || self.fence == earlier.fence
    }
}

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for key in timeline.keys.values().filter(|key| !key.effects.is_empty()) {
        let checks = EffectChecks { timeline, key };
        checks.once(verdict);
        checks.newest_lease_only(verdict);
        checks.recorded(verdict);
    }
}

impl EffectHistory {
    fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.ends.is_empty()
    }
}

struct EffectChecks<'a> {
    timeline: &'a Timeline<'a>,
    key: &'a KeyHistory<'a>,
}

impl EffectChecks<'_> {
    fn add(&self, verdict: &mut Verdict, (from, at): (u64, u64), is_allowed: bool, message: String) {
        // A lease is won up to a ttl before the function is called.
        let since = from.saturating_sub(micros(self.key.rules.ttl));
        let is_lost = self.timeline.had_fault(None, &[Fault::StoreLosesWrites], (since, at));
        verdict.add(is_lost || is_allowed, self.key.violation(Invariant::OneEffect, at, message));
    }

    /// When the run of an effect began.
    fn began(&self, Effect { at, fence, .. }: &Effect) -> u64 {
        let own = self.key.holdings.iter().find(|holding| holding.fence == *fence);
        own.map_or(*at, |holding| holding.began)
    }

    fn once(&self, verdict: &mut Verdict) {
        let effects = &self.key.effects.committed;
        for (number, later) in effects.iter().enumerate() {
            let Some(earlier) = effects[..number].iter().rev().find(|earlier| later.repeats(earlier)) else {
                continue;
            };
            // An operator may have freed the tick before the earlier effect was committed, or the store have lost its start.
            let since = self.began(earlier);
            let freed = |(at, to): &(u64, Timestamp)| {
                (since..=later.at).contains(at) && later.tick.is_some_and(|tick| tick > *to)
            };
            let what = later.tick.map_or("work that is done".to_owned(), |tick| format!("tick {tick}"));
            let message = format!(
                "{what}: an effect with fence {} was committed after one with fence {}",
                later.fence, earlier.fence
            );
            // Work that was begun when it no longer counted as done may be committed at an earlier instant.
            let clock_went_back = later.tick.is_none()
                && self.timeline.had_fault(None, &[Fault::StoreClockBack], (earlier.at, later.at));
            let is_allowed = clock_went_back || self.key.lowered.iter().any(freed);
            self.add(verdict, (since, later.at), is_allowed, message);
        }
    }

    fn newest_lease_only(&self, verdict: &mut Verdict) {
        for effect in &self.key.effects.committed {
            let (Effect { at, fence, .. }, began) = (effect, self.began(effect));
            // The last one: it excludes this effect most surely.
            let newer = self.key.holdings.iter().filter(|other| other.fence > *fence && other.began < *at);
            let newer = newer.max_by_key(|other| other.began);
            // A break at the instant of its begin may have been of the lease before.
            let is_broken = self.key.broken.iter().any(|broken| began < *broken && broken < at);
            let why = match newer {
                Some(newer) => format!("after the lease with fence {} began", newer.fence),
                None if is_broken => "after an operator broke it".to_owned(),
                None => continue,
            };
            let message = format!("the lease with fence {fence} committed an effect {why}");
            // The store may have lost the newer lease before this one was won.
            let since = newer.map_or(began, |newer| newer.began.min(began));
            // The record of a manual lock is deleted after its use: the fences of later leases follow the store's clock alone.
            let clock_went_back = !self.key.is_job()
                && since < began
                && self.timeline.had_fault(None, &[Fault::StoreClockBack], (since, began));
            self.add(verdict, (since, *at), clock_went_back, message);
        }
    }

    fn recorded(&self, verdict: &mut Verdict) {
        let effects = &self.key.effects;
        for RecordedEnd { at, fence, is_committed } in &effects.ends {
            let mut of_run = effects.committed.iter().filter(|effect| effect.fence == *fence);
            let what = if *is_committed {
                let is_missing = !of_run.any(|effect| effect.at <= *at);
                is_missing.then_some((*at, "as committed, and has no effect"))
            } else {
                of_run.next().map(|effect| (effect.at, "as crashed, and has an effect"))
            };
            if let Some((committed, what)) = what {
                let (from, until) = (committed.min(*at), committed.max(*at));
                let message = format!("the run with fence {fence} is recorded {what}");
                self.add(verdict, (from, until), false, message);
            }
        }
    }
}
