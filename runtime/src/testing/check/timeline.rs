//! A trace in the form that the checks ask for: leases by key, and faults as intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::effects::EffectHistory;
use super::holding::Holding;
use super::{Counts, Fault, Invariant, KeyRules, LeaseRef, Observation, Observed, Trace, Violation};
use crate::Timestamp;

/// A fault, or the life of a server, from its begin to its end.
#[derive(Clone, Debug)]
pub(super) struct Interval<T> {
    pub(super) what: T,
    pub(super) server: Arc<str>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A tick that became due.
#[derive(Debug)]
pub(super) struct ExpectedTick {
    pub(super) at: u64,
    /// The servers that claim it; `None` for all.
    servers: Option<Vec<Arc<str>>>,
}

impl ExpectedTick {
    pub(super) fn is_claimed_by(&self, server: &Arc<str>) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }
}

/// What happened with one key.
#[derive(Debug)]
pub(super) struct KeyHistory<'a> {
    pub(super) key: Arc<str>,
    pub(super) rules: &'a KeyRules,
    /// In the order in which they began.
    pub(super) holdings: Vec<Holding>,
    pub(super) due: BTreeMap<Timestamp, ExpectedTick>,
    /// Explanations: the first tick, the end, the reason.
    pub(super) explained: Vec<(Timestamp, Timestamp, Arc<str>)>,
    /// Accepted writes, in order.
    pub(super) writes: Vec<(u64, i64)>,
    /// Leases that their holders were notified to have lost.
    pub(super) lost: Vec<(u64, Arc<str>, i64)>,
    /// Leases that another holder's swap changed.
    pub(super) overwritten: Vec<(u64, Arc<str>, i64)>,
    /// Instants at which an operator broke the lock.
    pub(super) broken: Vec<u64>,
    /// Marks that an operator lowered: the instant, and the new mark.
    pub(super) lowered: Vec<(u64, Timestamp)>,
    pub(super) held_at_end: Vec<(u64, i64)>,
    pub(super) effects: EffectHistory,
    /// Starts before their ticks: instant, tick, and the store's clock.
    pub(super) early: Vec<(u64, Timestamp, Timestamp)>,
}

/// A trace, sorted.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    pub(super) keys: BTreeMap<&'a str, KeyHistory<'a>>,
    pub(super) faults: Vec<Interval<Fault>>,
    pub(super) servers: Vec<Interval<()>>,
    /// The jobs that servers do not have: server and key.
    lacking: BTreeSet<(Arc<str>, Arc<str>)>,
    pub(super) healed: Option<u64>,
    pub(super) end: u64,
    pub(super) slack: u64,
    pub(super) counts: Counts,
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl<'a> Timeline<'a> {
    pub(super) fn of(trace: &'a Trace) -> Self {
        let keys =
            trace.keys.iter().map(|(key, rules)| (key.as_str(), KeyHistory::new(key, rules))).collect();
        let mut timeline = Self {
            keys,
            faults: Vec::new(),
            servers: Vec::new(),
            lacking: BTreeSet::new(),
            healed: None,
            end: trace.observations.iter().map(|observation| observation.at).max().unwrap_or_default(),
            slack: micros(trace.slack),
            counts: Counts::default(),
        };
        let mut observations: Vec<_> = trace.observations.iter().collect();
        observations.sort_by_key(|observation| observation.at);
        for observation in observations {
            timeline.add(observation);
        }
        timeline
    }

    fn add(&mut self, observation: &Observation) {
        let Observation { at, server, what } = observation;
        let (at, end) = (*at, self.end);
        match what {
            Observed::ServerStarted => {
                self.servers.push(Interval { what: (), server: server.clone(), begin: at, end });
            }
            Observed::LacksJob(key) => {
                self.lacking.insert((server.clone(), key.clone()));
            }
            Observed::ServerEnded => self.end_server(server, at),
            Observed::FaultBegan(fault) => {
                *self.counts.faults.entry(*fault).or_default() += 1;
                self.faults.push(Interval { what: *fault, server: server.clone(), begin: at, end });
            }
            Observed::FaultEnded(fault) => {
                let of_kind = |open: &&mut Interval<Fault>| {
                    open.what == *fault && open.server == *server && open.end == end
                };
                if let Some(open) = self.faults.iter_mut().rev().find(of_kind) {
                    open.end = at;
                }
            }
            Observed::Healed => self.healed = Some(at),
            Observed::Finished => self.end = at,
            _ => {
                self.count(what);
                self.key(what).add(observation);
            }
        }
    }

    fn count(&mut self, what: &Observed) {
        let counts = &mut self.counts;
        match what {
            Observed::Due { .. } => counts.ticks += 1,
            Observed::Began { retry, .. } => {
                counts.calls += 1;
                counts.runs += u64::from(*retry == 0);
            }
            Observed::Stepped(_) => counts.steps += 1,
            Observed::Wrote(_) => counts.writes += 1,
            Observed::Committed { .. } => counts.effects += 1,
            _ => {}
        }
    }

    /// Ends a server, everything that was in progress on it, and its faults.
    fn end_server(&mut self, server: &Arc<str>, at: u64) {
        let open = self.servers.iter_mut().rev().find(|open| open.server == *server);
        if let Some(open) = open {
            open.end = at;
        }
        let end = self.end;
        for fault in self.faults.iter_mut().filter(|fault| fault.server == *server && fault.end == end) {
            fault.end = at;
        }
        for holding in self.keys.values_mut().flat_map(|key| &mut key.holdings) {
            if holding.server == *server && holding.ended.is_none() {
                holding.ended = Some(at);
            }
        }
    }

    #[track_caller]
    fn key(&mut self, what: &Observed) -> &mut KeyHistory<'a> {
        let key = match what {
            Observed::Began { lease, .. }
            | Observed::Stepped(lease)
            | Observed::Ended(lease)
            | Observed::Wrote(lease)
            | Observed::Overwrote(lease)
            | Observed::Lost(lease)
            | Observed::HeldAtEnd(lease)
            | Observed::Committed { lease, .. }
            | Observed::EndRecorded { lease, .. } => &lease.key,
            Observed::Due { key, .. }
            | Observed::Explained { key, .. }
            | Observed::Broken(key)
            | Observed::MarkLowered { key, .. } => key,
            _ => panic!("{what:?} is about no key"),
        };
        self.keys.get_mut(&**key).unwrap_or_else(|| panic!("the trace has no rules for the key {key:?}"))
    }

    /// Whether a server has the job of this key.
    pub(super) fn has_job(&self, server: &Arc<str>, key: &Arc<str>) -> bool {
        !self.lacking.contains(&(server.clone(), key.clone()))
    }

    /// Whether such a fault was active, on this server or on any if it is `None`, between two instants.
    pub(super) fn had_fault(&self, server: Option<&str>, kinds: &[Fault], (from, until): (u64, u64)) -> bool {
        self.faults.iter().any(|fault| {
            kinds.contains(&fault.what)
                && server.is_none_or(|server| *fault.server == *server || fault.server.is_empty())
                && fault.begin <= until
                && fault.end >= from
        })
    }
}

impl<'a> KeyHistory<'a> {
    fn new(key: &str, rules: &'a KeyRules) -> Self {
        Self {
            key: key.into(),
            rules,
            holdings: Vec::new(),
            due: BTreeMap::new(),
            explained: Vec::new(),
            writes: Vec::new(),
            lost: Vec::new(),
            overwritten: Vec::new(),
            broken: Vec::new(),
            lowered: Vec::new(),
            held_at_end: Vec::new(),
            effects: EffectHistory::default(),
            early: Vec::new(),
        }
    }

    fn add(&mut self, Observation { at, server, what }: &Observation) {
        let at = *at;
        match what {
            Observed::Began { lease, tick, attempt, retry, store_time } => {
                // A retry is not a start of its tick: the clock may have been set back since.
                if let Some(tick) = tick.filter(|tick| *retry == 0 && store_time < tick) {
                    self.early.push((at, tick, *store_time));
                }
                // After lost writes, and on a clock that was set back, a second lease may have the same fence.
                let is_another = |holding: &Holding| *retry == 0 && holding.ended.is_some();
                match self.holding(server, lease.fence) {
                    Some(holding) if !is_another(holding) => {
                        holding.retries.push(*retry);
                        holding.ended = None;
                        holding.steps.push(at);
                    }
                    _ => self.holdings.push(Holding {
                        server: server.clone(),
                        fence: lease.fence,
                        tick: *tick,
                        attempt: *attempt,
                        began: at,
                        retries: vec![*retry],
                        steps: vec![at],
                        ended: None,
                    }),
                }
            }
            Observed::Stepped(lease) => self.change(server, lease, |holding| holding.steps.push(at)),
            Observed::Ended(lease) => self.change(server, lease, |holding| holding.ended = Some(at)),
            Observed::Wrote(lease) => self.writes.push((at, lease.fence)),
            Observed::Overwrote(lease) => self.overwritten.push((at, server.clone(), lease.fence)),
            Observed::Lost(lease) => self.lost.push((at, server.clone(), lease.fence)),
            Observed::HeldAtEnd(lease) => self.held_at_end.push((at, lease.fence)),
            Observed::Broken(_) => self.broken.push(at),
            Observed::MarkLowered { to, .. } => self.lowered.push((at, *to)),
            Observed::Due { tick, servers, .. } => {
                self.due.entry(*tick).or_insert_with(|| ExpectedTick { at, servers: servers.clone() });
            }
            Observed::Explained { first, until, why, .. } => {
                self.explained.push((*first, *until, why.clone()));
            }
            other => self.effects.add(at, other),
        }
    }

    fn holding(&mut self, server: &Arc<str>, fence: i64) -> Option<&mut Holding> {
        self.holdings.iter_mut().rev().find(|holding| holding.fence == fence && holding.server == *server)
    }

    fn change(&mut self, server: &Arc<str>, lease: &LeaseRef, change: impl FnOnce(&mut Holding)) {
        let holding = self.holding(server, lease.fence);
        change(
            holding.unwrap_or_else(|| panic!("{lease:?} on {server} ended or took a step before it began")),
        );
    }

    /// Whether the key belongs to a job. A manual lock leaves no record behind.
    pub(super) fn is_job(&self) -> bool {
        !self.due.is_empty() || self.holdings.iter().any(|holding| holding.tick.is_some())
    }

    /// The reasons for which a tick did not run.
    pub(super) fn reasons(&self, tick: Timestamp) -> impl Iterator<Item = &str> {
        self.explained
            .iter()
            .filter(move |(first, until, _)| (*first..*until).contains(&tick))
            .map(|(_, _, why)| &**why)
    }

    pub(super) fn violation(&self, invariant: Invariant, at: u64, message: String) -> Violation {
        Violation { invariant, at, key: self.key.clone(), message }
    }
}
