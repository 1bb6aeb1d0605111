//! What happened in one run, or in many: faults, runs, and the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jobs::testing::check::{Counts, Fault, Invariant, Observed, Trace, Verdict, Violation};
use serde::{Deserialize, Serialize};

use super::faults::{self, FaultInterval};

/// A fault counts as a possible cause for this long after its end.
const AFTER: u64 = 5_000_000;

/// How often an invariant did not hold: against the promise, and for a reason that the promise excludes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Cell {
    violated: u64,
    excused: u64,
}

/// The sum over all runs of a store; runs are added in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub seeds: Vec<u64>,
    pub counts: Counts,
    /// Ticks that ran.
    pub ran: u64,
    /// What the nemesis did, by name.
    strikes: BTreeMap<String, u64>,
    totals: BTreeMap<Invariant, Cell>,
    /// The same by the faults that were active then, or up to 5 s before.
    by_fault: BTreeMap<Fault, BTreeMap<Invariant, Cell>>,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn new(strikes: BTreeMap<String, u64>, trace: &Trace, verdict: Verdict) -> Self {
        let mut report =
            Self { counts: verdict.counts, ran: ticks_that_ran(trace), strikes, ..Self::default() };
        let faults = faults::intervals(&trace.observations);
        for violation in &verdict.violations {
            report.count(violation, &faults, |cell| cell.violated += 1);
        }
        for violation in &verdict.excused {
            report.count(violation, &faults, |cell| cell.excused += 1);
        }
        report.violations = verdict.violations;
        report
    }

    fn count(&mut self, violation: &Violation, faults: &[FaultInterval], add: impl Fn(&mut Cell)) {
        add(self.totals.entry(violation.invariant).or_default());
        let mut active: Vec<_> = faults
            .iter()
            .filter(|fault| fault.begun <= violation.at && violation.at <= fault.ended.saturating_add(AFTER))
            .map(|fault| fault.what)
            .collect();
        active.sort_unstable();
        active.dedup();
        for fault in active {
            add(self.by_fault.entry(fault).or_default().entry(violation.invariant).or_default());
        }
    }

    /// Adds another run to the sum.
    pub fn add(&mut self, other: &Self) {
        self.seeds.extend(&other.seeds);
        self.ran += other.ran;
        let (sum, counts) = (&mut self.counts, &other.counts);
        sum.ticks += counts.ticks;
        sum.runs += counts.runs;
        sum.calls += counts.calls;
        sum.steps += counts.steps;
        sum.writes += counts.writes;
        sum.effects += counts.effects;
        for (fault, times) in &counts.faults {
            *sum.faults.entry(*fault).or_default() += times;
        }
        for (strike, times) in &other.strikes {
            *self.strikes.entry(strike.clone()).or_default() += times;
        }
        add_cells(&mut self.totals, &other.totals);
        for (fault, cells) in &other.by_fault {
            add_cells(self.by_fault.entry(*fault).or_default(), cells);
        }
        self.violations.extend_from_slice(&other.violations);
    }
}

fn ticks_that_ran(trace: &Trace) -> u64 {
    let mut due = BTreeSet::new();
    let mut began = BTreeSet::new();
    for observation in &trace.observations {
        match &observation.what {
            Observed::Due { key, tick, .. } => drop(due.insert((key, *tick))),
            Observed::Began { lease, tick: Some(tick), .. } => drop(began.insert((&lease.key, *tick))),
            _ => {}
        }
    }
    due.intersection(&began).count() as u64
}

fn add_cells(sum: &mut BTreeMap<Invariant, Cell>, cells: &BTreeMap<Invariant, Cell>) {
    for (invariant, cell) in cells {
        let sum = sum.entry(*invariant).or_default();
        sum.violated += cell.violated;
        sum.excused += cell.excused;
    }
}

/// The table of faults and invariants: `violations (excused)`, `·` for none.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { ticks, runs, calls, steps, writes, effects, faults, .. } = &self.counts;
        let ran = self.ran;
        writeln!(
            f,
            "{ticks} ticks, of which {ran} ran, {runs} leases, {calls} calls, {steps} steps, {writes} accepted writes, \
             {effects} effects"
        )?;
        let strikes: Vec<_> =
            self.strikes.iter().map(|(strike, times)| format!("{strike} {times}")).collect();
        writeln!(f, "struck: {}", strikes.join(", "))?;
        write!(f, "{:<18}{:>7}", "fault", "times")?;
        for invariant in Invariant::ALL {
            write!(f, "{:>9}", invariant.to_string().split(' ').next().unwrap_or_default())?;
        }
        let nothing = BTreeMap::new();
        let rows = faults.iter().map(|(fault, times)| {
            (format!("{fault:?}"), Some(times), self.by_fault.get(fault).unwrap_or(&nothing))
        });
        for (name, times, cells) in rows.chain([("all".to_owned(), None, &self.totals)]) {
            write!(f, "\n{name:<18}{:>7}", times.map(u64::to_string).unwrap_or_default())?;
            for invariant in Invariant::ALL {
                let text = match cells.get(&invariant) {
                    None => "·".to_owned(),
                    Some(Cell { violated, excused: 0 }) => violated.to_string(),
                    Some(Cell { violated, excused }) => format!("{violated} ({excused})"),
                };
                write!(f, "{text:>9}")?;
            }
        }
        Ok(())
    }
}
