//! Simulates fleets under faults, thousands of them, and checks the promise in each.
//!
//!     cargo run --release --example simulate -- --seeds 10000
//!
//! Options: `--seeds N` (1,000), `--from N` (0), `--seed N` for one seed, `--trace` to print its history, `--lossy` for a
//! store that loses writes in every seed (in one of five otherwise), `--control NAME` for a mistake that must be found,
//! `--controls` to find all of them, `--threads N` (2). The exit code is 1 after a violation, or if the seeds did not reach what they should.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobs::testing::check::{Fault, Invariant, Violation};
use jobs::testing::simulation::{
    Control, Plan, Simulated, StoreLosses, never_reached, seeds_to_find, shrink, simulate,
};

/// Every fifth seed has a store that loses writes.
const LOSSY_EVERY: u64 = 5;
/// From this number of seeds on, everything must be reached.
const REACHES_ALL: u64 = 10_000;
/// Observations that are printed of a shrunk history.
const SHOWN: usize = 60;

#[derive(Clone, Copy)]
struct Options {
    from: u64,
    seeds: u64,
    is_traced: bool,
    is_lossy: bool,
    control: Option<Control>,
    finds_controls: bool,
    threads: usize,
}

#[derive(Default)]
struct Totals {
    seeds: u64,
    lossy_seeds: u64,
    virtual_time: Duration,
    ticks: u64,
    runs: u64,
    calls: u64,
    steps: u64,
    effects: u64,
    faults: BTreeMap<Fault, u64>,
    violations: BTreeMap<(Invariant, bool), u64>,
    excused: BTreeMap<(Invariant, bool), u64>,
    coverage: BTreeMap<String, u64>,
    failed: Vec<u64>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    if options.is_traced {
        return trace(options);
    }
    if options.finds_controls {
        return find_controls(options);
    }
    let begun = Instant::now();
    let totals = run(options);
    report(&totals, begun.elapsed());
    let unreached = if options.seeds >= REACHES_ALL { never_reached(&totals.coverage) } else { Vec::new() };
    for what in &unreached {
        println!("never reached: {what}");
    }
    if let Some(first) = totals.failed.first() {
        explain(options, *first);
    }
    if totals.failed.is_empty() && unreached.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        from: 0,
        seeds: 1_000,
        is_traced: false,
        is_lossy: false,
        control: None,
        finds_controls: false,
        threads: 2,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        match argument.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--from" => options.from = number(value()?)?,
            "--seed" => (options.from, options.seeds) = (number(value()?)?, 1),
            "--threads" => options.threads = usize::try_from(number(value()?)?).unwrap_or(1).max(1),
            "--trace" => options.is_traced = true,
            "--lossy" => options.is_lossy = true,
            "--controls" => options.finds_controls = true,
            "--control" => options.control = Some(value()?.parse()?),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn plan(options: Options, seed: u64) -> Plan {
    let is_lossy = options.is_lossy || seed % LOSSY_EVERY == LOSSY_EVERY - 1;
    let losses = if is_lossy { StoreLosses::Lossy } else { StoreLosses::None };
    match options.control {
        Some(control) => Plan::draw(seed, losses).with_control(control),
        None => Plan::draw(seed, losses),
    }
}

/// Simulates all seeds, on several threads.
fn run(options: Options) -> Totals {
    let (next, totals) = (AtomicU64::new(0), Mutex::new(Totals::default()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.seeds {
                        return;
                    }
                    let plan = plan(options, options.from + number);
                    let simulated = simulate(&plan);
                    let mut totals = totals.lock().expect("no thread panics with it");
                    totals.add(&plan, &simulated);
                    if totals.seeds % 1_000 == 0 {
                        let (seeds, failed) = (totals.seeds, totals.failed.len());
                        eprintln!("{seeds} seeds in {:.1?}, {failed} with violations", begun.elapsed());
                    }
                }
            });
        }
    });
    totals.into_inner().expect("no thread panics with it")
}

impl Totals {
    fn add(&mut self, plan: &Plan, simulated: &Simulated) {
        let is_lossy = plan.losses() == StoreLosses::Lossy;
        let counts = &simulated.verdict.counts;
        self.seeds += 1;
        self.lossy_seeds += u64::from(is_lossy);
        self.virtual_time += simulated.lasted;
        self.ticks += counts.ticks;
        self.runs += counts.runs;
        self.calls += counts.calls;
        self.steps += counts.steps;
        self.effects += counts.effects;
        for (fault, count) in &counts.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for Violation { invariant, .. } in &simulated.verdict.violations {
            *self.violations.entry((*invariant, is_lossy)).or_default() += 1;
        }
        for Violation { invariant, .. } in &simulated.verdict.excused {
            *self.excused.entry((*invariant, is_lossy)).or_default() += 1;
        }
        for (what, count) in &simulated.coverage {
            *self.coverage.entry(what.clone()).or_default() += count;
        }
        if let Some(violation) = simulated.verdict.violations.first() {
            eprintln!("seed {}: {violation}", plan.seed());
            self.failed.push(plan.seed());
            self.failed.sort_unstable();
        }
    }
}

fn report(totals: &Totals, took: Duration) {
    let Totals { seeds, lossy_seeds, ticks, runs, calls, steps, .. } = totals;
    println!("seeds              {seeds:>12}, of which the store loses writes in {lossy_seeds}");
    println!("virtual hours      {:>12.1}", totals.virtual_time.as_secs_f64() / 3600.0);
    println!("real time          {took:>12.1?}");
    println!("ticks              {ticks:>12}");
    println!("leases used        {runs:>12}, with {calls} calls and {steps} steps");
    println!("effects committed  {:>12}", totals.effects);
    println!("faults             {:>12}", totals.faults.values().sum::<u64>());
    for (fault, count) in &totals.faults {
        println!("  {:<24} {count:>9}", format!("{fault:?}"));
    }
    println!("                      store keeps its writes      store loses writes");
    println!("                       violations    excused    violations   excused");
    for invariant in Invariant::ALL {
        let count = |of: &BTreeMap<(Invariant, bool), u64>, is_lossy| {
            of.get(&(invariant, is_lossy)).copied().unwrap_or_default()
        };
        let name = invariant.to_string();
        println!(
            "{name:<22} {:>10} {:>10}    {:>10} {:>9}",
            count(&totals.violations, false),
            count(&totals.excused, false),
            count(&totals.violations, true),
            count(&totals.excused, true)
        );
    }
    println!("reached");
    for (what, count) in &totals.coverage {
        println!("  {what:<48} {count:>9}");
    }
    if !totals.failed.is_empty() {
        let shown: Vec<_> = totals.failed.iter().take(10).collect();
        println!("{} seeds with violations, the first: {shown:?}", totals.failed.len());
    }
}

/// Finds every control, and prints the number of seeds that it took.
fn find_controls(options: Options) -> ExitCode {
    let (next, missed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while let Some(control) = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                    .ok()
                    .and_then(|n| Control::ALL.get(n))
                {
                    let found = seeds_to_find(*control, options.seeds);
                    missed.fetch_add(u64::from(found.is_none()), Ordering::Relaxed);
                    let seeds = found.map_or("NOT FOUND".to_owned(), |seeds| format!("{seeds} seeds"));
                    println!("{control:<24} {:<24} {seeds}", control.breaks().to_string());
                }
            });
        }
    });
    if missed.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shrinks the plan of a seed that fails, and prints its history.
fn explain(options: Options, seed: u64) {
    let plan = plan(options, seed);
    let broken = simulate(&plan).verdict.violations;
    let Some(first) = broken.first().map(|violation| violation.invariant) else { return };
    let fails =
        |plan: &Plan| simulate(plan).verdict.violations.iter().any(|violation| violation.invariant == first);
    let shrunk = shrink(&plan, fails);
    println!("\nseed {seed} breaks \"{first}\"; shrunk:\n{shrunk}");
    let simulated = simulate(&shrunk);
    print_history(&simulated, Some(SHOWN));
}

fn trace(options: Options) -> ExitCode {
    let plan = plan(options, options.from);
    println!("{plan}");
    let simulated = simulate(&plan);
    print_history(&simulated, None);
    if simulated.verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the observations, or only the last ones up to the first violation.
fn print_history(simulated: &Simulated, most: Option<usize>) {
    let observations = &simulated.trace.observations;
    let broken_at = simulated.verdict.violations.first().map(|violation| (violation.at, &violation.key));
    let shown: Vec<_> = match (most, broken_at) {
        (Some(most), Some((at, key))) => {
            let until = at + 200_000;
            let related = observations.iter().filter(|seen| seen.at <= until && seen.what.is_about(key));
            let related: Vec<_> = related.collect();
            related[related.len().saturating_sub(most)..].to_vec()
        }
        _ => observations.iter().collect(),
    };
    for observation in shown {
        println!("{observation}");
    }
    for violation in &simulated.verdict.violations {
        println!("VIOLATION {violation}");
    }
    for violation in simulated.verdict.excused.iter().take(20) {
        println!("excused   {violation}");
    }
}
