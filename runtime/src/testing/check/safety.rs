//! Nothing bad happens: I1 to I4, I6 and I7.

use std::collections::{BTreeMap, BTreeSet};

use super::holding::Holding;
use super::timeline::{KeyHistory, Timeline, micros};
use super::{Fault, Invariant, Verdict};
use crate::Timestamp;

/// Faults of the store that the promise excludes for overlaps.
const STORE_BREAKS_LEASES: [Fault; 3] =
    [Fault::StoreLosesWrites, Fault::StoreClockForward, Fault::StoreClockBack];

/// Faults during which a holder cannot see that its lease ends. A process that gets no processor is as good as stopped.
const HOLDER_STANDS_STILL: [Fault; 3] = [Fault::Stop, Fault::Suspend, Fault::Overload];

/// How long a step takes at most, from the continuation of a process that was stopped in the middle of it, in microseconds.
const STEP_FINISHED_WITHIN: u64 = 20_000;

/// Faults that cost a holder its lease while its application is blocked. Without one it keeps its lease.
/// A guard is not extended after the grace of a shutdown.
const COSTS_THE_LEASE: [Fault; 5] =
    [Fault::CutOff, Fault::BadNetwork, Fault::StoreOutage, Fault::ForeignLock, Fault::Deploy];

/// Faults that can cost a holder its lease.
const LOSES_LEASES: [Fault; 13] = [
    Fault::Kill,
    Fault::Stop,
    Fault::Suspend,
    Fault::BlockApplication,
    Fault::CutOff,
    Fault::BadNetwork,
    Fault::Deploy,
    Fault::StoreOutage,
    Fault::StoreLosesWrites,
    Fault::StoreClockForward,
    Fault::StoreClockBack,
    Fault::ForeignLock,
    Fault::Overload,
];

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for key in timeline.keys.values() {
        let checks = KeyChecks { timeline, key };
        checks.one_start(verdict);
        checks.no_overlap(verdict);
        checks.growing_fences(verdict);
        checks.own_lease_only(verdict);
        checks.fenced_writes(verdict);
        for (at, tick, clock) in &key.early {
            let message = format!("tick {tick} started at {clock} by the store's clock");
            // The clock was set back between the win and the call, or a retry.
            let recently = (at.saturating_sub(2 * micros(key.rules.ttl)), *at);
            let excused = timeline.had_fault(None, &[Fault::StoreClockBack], recently);
            verdict.add(excused, key.violation(Invariant::NotEarly, *at, message));
        }
    }
}

struct KeyChecks<'a> {
    timeline: &'a Timeline<'a>,
    key: &'a KeyHistory<'a>,
}

impl KeyChecks<'_> {
    fn ttl(&self) -> u64 {
        micros(self.key.rules.ttl)
    }

    /// Whether the store lost what it knew of the earlier lease before the later one began.
    fn store_forgot(&self, earlier: &Holding, later: &Holding) -> bool {
        let since = earlier.began.saturating_sub(self.ttl());
        self.timeline.had_fault(None, &[Fault::StoreLosesWrites], (since, later.began))
    }

    /// Whether an operator freed this tick after the earlier start: the store's clock had been set back.
    fn was_reset(&self, tick: Timestamp, earlier: &Holding, later: &Holding) -> bool {
        let between = earlier.began..=later.began;
        self.key.lowered.iter().any(|(at, to)| between.contains(at) && tick > *to)
    }

    fn one_start(&self, verdict: &mut Verdict) {
        let mut started = BTreeMap::<Timestamp, Vec<&Holding>>::new();
        for later in &self.key.holdings {
            let again =
                later.retries.iter().enumerate().any(|(index, retry)| later.retries[..index].contains(retry));
            if again {
                let message = format!("fence {} on {}: one try was called twice", later.fence, later.server);
                // After lost writes, and on a clock that was set back, a second lease may have the same fence.
                let until = (later.began.saturating_sub(self.ttl()), self.timeline.end);
                let excused = self.timeline.had_fault(None, &[Fault::StoreLosesWrites], until);
                verdict.add(excused, self.key.violation(Invariant::OneStart, later.began, message));
            }
            let Some(tick) = later.tick else { continue };
            let of_tick = started.entry(tick).or_default();
            for earlier in &*of_tick {
                let is_takeover =
                    later.attempt > earlier.attempt && later.attempt <= 1 + self.key.rules.takeovers;
                if !is_takeover {
                    let message = format!(
                        "tick {tick} started on {} (fence {}, attempt {}) and again on {} (fence {}, attempt {})",
                        earlier.server,
                        earlier.fence,
                        earlier.attempt,
                        later.server,
                        later.fence,
                        later.attempt
                    );
                    let violation = self.key.violation(Invariant::OneStart, later.began, message);
                    let excused = self.store_forgot(earlier, later) || self.was_reset(tick, earlier, later);
                    verdict.add(excused, violation);
                }
            }
            of_tick.push(later);
        }
    }

    fn no_overlap(&self, verdict: &mut Verdict) {
        // In the order in which they began: one that has ended before a later one began does not count any more.
        let mut in_progress = Vec::<&Holding>::new();
        for later in &self.key.holdings {
            in_progress.retain(|earlier| earlier.is_active_at(later.began));
            let others = in_progress.iter().copied();
            let (excused, active): (Vec<_>, Vec<_>) =
                others.partition(|earlier| self.excuses_overlap(earlier, later));
            in_progress.push(later);
            let is_full = |count: usize| count >= self.key.rules.permits;
            if is_full(active.len() + excused.len()) {
                let holders: Vec<_> = active.iter().chain(&excused).map(|held| describe(held)).collect();
                let message = format!("{} began next to {}", describe(later), holders.join(", "));
                let violation = self.key.violation(Invariant::NoOverlap, later.began, message);
                verdict.add(!is_full(active.len()), violation);
            }
        }
    }

    /// Whether the promise excludes this overlap.
    fn excuses_overlap(&self, earlier: &Holding, later: &Holding) -> bool {
        let both = (earlier.began, later.began);
        // It was won up to a ttl before the function was called.
        let since_won = (earlier.began.saturating_sub(self.ttl()), later.began);
        let stood_still = self.timeline.had_fault(Some(&earlier.server), &HOLDER_STANDS_STILL, both);
        let is_blocked = self.timeline.had_fault(Some(&earlier.server), &[Fault::BlockApplication], both);
        let stood_still = stood_still
            || (is_blocked && self.timeline.had_fault(Some(&earlier.server), &COSTS_THE_LEASE, since_won));
        self.key.rules.continues_when_lost
            || self.timeline.had_fault(None, &STORE_BREAKS_LEASES, since_won)
            || self.key.broken.iter().any(|at| (since_won.0..=since_won.1).contains(at))
            || (stood_still && self.takes_no_further_step(earlier, later.began))
    }

    /// Whether a holder that stood still takes no step from this instant on. A process that was stopped in the middle of a step
    /// finishes that one when it continues. In virtual time nothing stops in the middle of a step.
    fn takes_no_further_step(&self, holder: &Holding, from: u64) -> bool {
        let continued = |step: u64| {
            let around = (step.saturating_sub(STEP_FINISHED_WITHIN), step + STEP_FINISHED_WITHIN);
            self.timeline.faults.iter().any(|fault| {
                self.timeline.slack > 0
                    && HOLDER_STANDS_STILL.contains(&fault.what)
                    && fault.server == holder.server
                    && fault.begin <= from
                    && (around.0..=around.1).contains(&fault.end)
            })
        };
        let mut later = holder.steps.iter().filter(|step| **step > from);
        later.next().is_none_or(|step| continued(*step)) && later.next().is_none()
    }

    fn growing_fences(&self, verdict: &mut Verdict) {
        let mut fences = BTreeSet::new();
        for (number, later) in self.key.holdings.iter().enumerate() {
            let is_new = fences.insert(later.fence);
            if is_new && (self.key.rules.permits > 1 || fences.last() == Some(&later.fence)) {
                continue; // it is unique, and the highest one if it must be
            }
            // One of them is enough, if possible one that is not excused.
            let mut found = None;
            for earlier in &self.key.holdings[..number] {
                let grows = later.fence > earlier.fence;
                // Of two slots, the answer to the second claim may arrive first.
                let is_unique = later.fence != earlier.fence;
                if grows || (self.key.rules.permits > 1 && is_unique) {
                    continue;
                }
                let went_back = self.timeline.had_fault(None, &[Fault::StoreClockBack], (0, later.began));
                let (forgot, is_job) = (self.store_forgot(earlier, later), self.key.is_job());
                // The record of a manual lock is deleted after its use: an older holder can restore its lease after a newer one
                // came and went.
                let is_excluded = (went_back && (forgot || !is_job)) || (forgot && !is_job && is_unique);
                // A lease that was won before the clock jumped past its end, and first used after it.
                let since = later.began.saturating_sub(self.ttl());
                let jumped = self.timeline.had_fault(None, &[Fault::StoreClockForward], (since, later.began));
                // A lease that was broken between its win and its begin, before the holder noticed it.
                let was_broken = self.key.broken.iter().any(|at| (since..=later.began).contains(at));
                // Or that the store lost in between.
                let was_lost =
                    self.timeline.had_fault(None, &[Fault::StoreLosesWrites], (since, later.began));
                let excused = is_excluded || ((was_broken || was_lost || jumped) && is_unique);
                found = Some((earlier, excused));
                if !excused {
                    break;
                }
            }
            if let Some((earlier, excused)) = found {
                let message = format!("{} follows {}", describe(later), describe(earlier));
                verdict.add(excused, self.key.violation(Invariant::GrowingFences, later.began, message));
            }
        }
    }

    fn own_lease_only(&self, verdict: &mut Verdict) {
        for (at, server, fence) in &self.key.overwritten {
            let message =
                format!("a swap of {server} changed the valid lease with fence {fence} of another server");
            verdict.add(false, self.key.violation(Invariant::OwnLeaseOnly, *at, message));
        }
        for (at, server, fence) in &self.key.lost {
            let recently = (at.saturating_sub(2 * self.ttl() + self.timeline.slack), *at);
            let broken = self.key.broken.iter().any(|broken| (recently.0..=recently.1).contains(broken));
            if !broken && !self.timeline.had_fault(Some(server), &LOSES_LEASES, recently) {
                let message = format!("{server} lost the lease with fence {fence} without a fault");
                verdict.add(false, self.key.violation(Invariant::OwnLeaseOnly, *at, message));
            }
        }
    }

    fn fenced_writes(&self, verdict: &mut Verdict) {
        let mut highest = 0;
        for (at, fence) in &self.key.writes {
            if *fence < highest {
                let message = format!("a write with fence {fence} was accepted after one with {highest}");
                verdict.add(false, self.key.violation(Invariant::FencedWrites, *at, message));
            }
            highest = highest.max(*fence);
        }
    }
}

fn describe(holding: &Holding) -> String {
    format!("fence {} on {}", holding.fence, holding.server)
}
