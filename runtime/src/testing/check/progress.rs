//! Something good happens: I5, I8 and I9.

use super::holding::Holding;
use super::timeline::{ExpectedTick, Interval, KeyHistory, Timeline, micros};
use super::{Fault, HELD, Invariant, Verdict};
use crate::Timestamp;

/// Faults with which a server hangs or is cut off.
const SERVER_HANGS: [Fault; 4] = [Fault::Stop, Fault::Suspend, Fault::BlockApplication, Fault::CutOff];

pub(super) fn check(timeline: &Timeline<'_>, verdict: &mut Verdict) {
    for key in timeline.keys.values() {
        explained(timeline, key, verdict);
        recovery(timeline, key, verdict);
        for fault in timeline.faults.iter().filter(|fault| SERVER_HANGS.contains(&fault.what)) {
            hung_server(timeline, key, fault, verdict);
        }
    }
}

impl KeyHistory<'_> {
    fn began(&self, tick: Timestamp) -> bool {
        self.holdings.iter().any(|holding| holding.tick == Some(tick))
    }

    /// Whether a run was in progress that a server which hangs like this does not keep from ending. A run whose application is
    /// blocked keeps its lease.
    fn has_living_run(&self, hung: &Interval<Fault>, at: u64) -> bool {
        let is_alive =
            |holding: &&Holding| holding.server != hung.server || hung.what == Fault::BlockApplication;
        self.holdings.iter().filter(is_alive).any(|holding| holding.is_active_at(at))
    }

    /// The number of ticks that became due within a time while the key was free and one of these servers claimed them, if none
    /// of them ran, nor was kept from running by anything else than a lease.
    fn none_ran_within(
        &self,
        (from, until): (u64, u64),
        servers: &[&Interval<()>],
        is_busy: impl Fn(u64) -> bool,
    ) -> Option<usize> {
        let is_claimed = |due: &ExpectedTick| servers.iter().any(|server| due.is_claimed_by(&server.server));
        let counts =
            |due: &ExpectedTick| (from..=until).contains(&due.at) && !is_busy(due.at) && is_claimed(due);
        let due: Vec<_> = self.due.iter().filter(|(_, due)| counts(due)).collect();
        let is_excused = |tick: Timestamp| self.reasons(tick).any(|why| why != HELD);
        let ran = self.holdings.iter().any(|holding| (from..=until).contains(&holding.began));
        (!ran && !due.is_empty() && !due.iter().any(|(tick, _)| is_excused(**tick))).then_some(due.len())
    }
}

/// I8. Ticks after the newest one that ran may still be reported: the server that wins the next one reports them as missed.
fn explained(timeline: &Timeline<'_>, key: &KeyHistory<'_>, verdict: &mut Verdict) {
    let is_decided = |tick: Timestamp| key.began(tick) || key.reasons(tick).next().is_some();
    let newest = key.due.keys().rev().find(|tick| key.began(**tick));
    for (tick, due) in key.due.iter().take_while(|(tick, _)| newest.is_some_and(|newest| *tick <= newest)) {
        if !is_decided(*tick) {
            let excused = timeline.had_fault(None, &[Fault::StoreLosesWrites], (due.at, timeline.end));
            let message = format!("tick {tick} did not run, and no report or record says why");
            verdict.add(excused, key.violation(Invariant::Explained, due.at, message));
        }
    }
}

/// I5.
fn recovery(timeline: &Timeline<'_>, key: &KeyHistory<'_>, verdict: &mut Verdict) {
    for (at, fence) in &key.held_at_end {
        let message = format!("the lease with fence {fence} of a server that has ended still holds the key");
        verdict.add(false, key.violation(Invariant::Recovery, *at, message));
    }
    let Some(healed) = timeline.healed else { return };
    let settled = healed + micros(key.rules.ttl) + timeline.slack;
    let tail = (settled, timeline.end.saturating_sub(timeline.slack));
    let serves = |server: &&Interval<()>| {
        server.begin <= tail.0 && server.end >= tail.1 && timeline.has_job(&server.server, &key.key)
    };
    let servers: Vec<_> = timeline.servers.iter().filter(serves).collect();
    let is_busy = |at| key.holdings.iter().any(|holding| holding.is_active_at(at));
    if tail.0 < tail.1
        && let Some(due @ 2..) = key.none_ran_within(tail, &servers, is_busy)
    {
        let message = format!("none of {due} ticks ran after the faults had ended");
        verdict.add(false, key.violation(Invariant::Recovery, settled, message));
    }
}

/// I9.
fn hung_server(timeline: &Timeline<'_>, key: &KeyHistory<'_>, hung: &Interval<Fault>, verdict: &mut Verdict) {
    let during = (hung.begin + micros(key.rules.ttl) + timeline.slack, hung.end);
    // A server that was killed holds the key for a ttl, too. So does one that is stopped by a deploy while its application is
    // blocked: it cannot end its run, and does not release its lease.
    let is_killed = timeline.had_fault(None, &[Fault::Kill], (hung.begin, during.1));
    let is_replaced = timeline.had_fault(Some(&hung.server), &[Fault::Deploy], (hung.begin, during.1));
    if during.0 >= during.1 || is_killed || is_replaced {
        return;
    }
    // Another server that could run the ticks, and a store that answers.
    let is_fine = |server: &&Interval<()>| {
        server.server != hung.server
            && timeline.has_job(&server.server, &key.key)
            && server.begin < hung.begin
            && server.end > hung.end
            && !timeline.faults.iter().any(|fault| {
                (fault.server == server.server || fault.server.is_empty())
                    && fault.begin <= during.1
                    && fault.end >= hung.begin.saturating_sub(micros(key.rules.ttl))
            })
    };
    // Another server that hangs may hold the key for a ttl of its own.
    let is_held_by_another = |at: u64| {
        timeline.faults.iter().any(|fault| {
            let expired = fault.begin + micros(key.rules.ttl) + timeline.slack;
            SERVER_HANGS.contains(&fault.what)
                && fault.server != hung.server
                && (fault.begin..=expired).contains(&at)
        })
    };
    // So may one whose releases get lost, and one that was replaced while its application was blocked.
    let is_not_released = |at: u64| {
        key.holdings.iter().any(|holding| {
            holding.server != hung.server
                && holding.ended.is_some_and(|ended| {
                    let expired = ended + micros(key.rules.ttl) + timeline.slack;
                    let is_cut = || {
                        timeline.had_fault(
                            Some(&holding.server),
                            &[Fault::BadNetwork, Fault::BlockApplication],
                            (ended, ended),
                        )
                    };
                    (ended..=expired).contains(&at) && is_cut()
                })
        })
    };
    let is_busy = |at| key.has_living_run(hung, at) || is_held_by_another(at) || is_not_released(at);
    let servers: Vec<_> = timeline.servers.iter().filter(is_fine).collect();
    if let Some(due @ 2..) = key.none_ran_within(during, &servers, is_busy) {
        // Lost writes may bring back a lock that another program had deleted, and that never expires.
        let is_lost =
            |fault: &&Interval<Fault>| fault.what == Fault::StoreLosesWrites && fault.begin <= during.1;
        let has_lock_back = timeline
            .faults
            .iter()
            .filter(is_lost)
            .any(|lost| timeline.had_fault(None, &[Fault::ForeignLock], (0, lost.begin)));
        let message = format!("none of {due} ticks ran while {} was hung ({:?})", hung.server, hung.what);
        verdict.add(has_lock_back, key.violation(Invariant::HungServer, during.0, message));
    }
}
