//! The protocol look, decide, swap, explored in full: every interleaving of a few servers, ticks and faults.
//!
//! The decisions are the crate's own (`jobs::store::decide`), and so is the meaning of a swap (`jobs::store::Record::swap`).
//! The model adds what surrounds them: servers, a network, the store's clock, other programs and an operator. Stateright
//! explores every reachable state, breadth first, and checks the properties in [`facts`] on each.
//!
//! # What is modelled
//!
//! | part of the model | what it does | the code that it stands for |
//! |---|---|---|
//! | [`real`] | calls the crate's functions with small values | `store/decide/*`, `store/record/mod.rs` themselves |
//! | [`steps::claiming`] | one token through all requests; decide anew after "changed"; look again after a lost answer; a win after its own deadline is released; a dropped claim releases what it may have won; the first request of a manual lock is its swap | `tick/claim/mod.rs`, `lease/pending.rs`, `store/client/mod.rs`, `store/client/lease.rs` |
//! | [`steps::holding`] | the local deadline; keep-alive and release, with or without a look; the job is not polled past its deadline | `lease/mod.rs`, `lease/validity.rs`, `tick/try_task.rs`, `tick/execute.rs`, `CachedRecord` |
//! | [`steps::transactions`] | transactions of the application that finish a run: they lock the row of its lease, and end at any time | `lease/transaction.rs`, the databases |
//! | [`steps::surroundings`] | messages that are lost, late or duplicated; a vanishing lock, another program's lock; wipes, lossy failovers, jumps of the store's clock; the operator; time | the world |
//! | [`checks`] | the invariants | the promise |
//! | [`merging`] | merge states that no step can tell apart; [`configurations::unmerged`] explores some without that | |
//! | [`broken`], [`configurations::controls`] | rules that are broken on purpose, each of which must be caught | |
//!
//! A swap without a fault is one step. A fault of the network leaves the swap, its answer or a copy of it in flight: it
//! arrives at any later time, or never, whether its sender still waits, has given up, or has crashed. A lost look changes
//! nothing, so it is no step. Any time may pass between a look and its swap; in two configurations also between the parts of a
//! look. A server's own clock is not in the model: a
//! server claims a tick from a second before it is due, at any time.
//!
//! # What is left out, and why that is sound enough
//!
//! - Time passes in a few instants per configuration, chosen around the ticks, the response timeout, and the deadlines and
//!   ends of leases. What happens only at other instants is not seen. The ttl is 6 s, so that the real response timeout
//!   (1 s) and margin (0.6 s) are a step apart.
//! - A late answer is accepted for as long as its claim is pending. The client drops it at the response timeout, so the
//!   model allows more. For the same reason an abandoned claim may stop looking at any time.
//! - Statistics, run records, missed gaps, names of servers and other parts of the record that no decision reads are dropped;
//!   [`real`] lists them, and panics if anything else would be lost.
//! - Versions are as unique as their nonces: a swap always gets a new one. That the store's clock makes them differ even for
//!   a copy of the same swap is the contract of every store, checked by the store kit.
//! - Runs overlap (I2) only while both rely on their lease: a holder that was stopped past its deadline does not count,
//!   because its job is not polled any more. The control `PolledWithoutCheck` shows that this check is needed.
//! - A transaction is committed or rolled back at any time after its `finish`, also when its server is gone: more than can happen.
//! - Not modelled: slots of a semaphore, done marks (nor `finish` inside `once`), requested runs, a lock whose ttl is changed, `reset`, `forget`, `cancel`,
//!   jitter, changed schedules and policies during a deploy, drift of clocks, suspended machines (`Validity::is_doubtful`),
//!   `on_lost = "continue"`, `WAIT`, partly applied scripts, and two primaries at once.
//!
//! # Running it
//!
//! ```console
//! cargo test --workspace --test model -- --nocapture                         # all tables
//! JOBS_TEST_MODEL=all cargo test --workspace --test model -- --nocapture     # the large configurations, too
//! JOBS_TEST_MODEL="K: " cargo test --workspace --test model -- --nocapture   # one configuration
//! JOBS_TEST_MODEL=NoMark cargo test --workspace --test model -- --nocapture  # one control, with its steps
//! ```

mod broken;
mod checks;
mod configurations;
mod facts;
mod protocol;
mod real;
mod small;
mod state;
mod merging {
    pub mod canonical;
    pub mod numbering;
    pub mod visit;
}
mod steps {
    pub mod claiming;
    pub mod holding;
    pub mod surroundings;
    pub mod transactions;
}

use std::collections::HashSet;
use std::env;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use broken::BrokenRule;
use configurations::configuration::Configuration;
use configurations::{controls, large, unmerged};
use facts::Violation;
use protocol::Protocol;
use state::State;

/// The selection in the environment.
enum Selection {
    Default,
    All,
    /// A part of the name.
    Some(String),
}

impl Selection {
    fn from_environment() -> Self {
        match env::var("JOBS_TEST_MODEL") {
            Err(_) => Self::Default,
            Ok(name) if name == "all" => Self::All,
            Ok(name) => Self::Some(name),
        }
    }

    fn has(&self, name: &str, is_large: bool) -> bool {
        match self {
            Self::Default => !is_large,
            Self::All => true,
            Self::Some(part) => name.contains(part),
        }
    }
}

/// Number of states that were explored, and the steps to a violation. The search ends there, so the path is short.
fn path_to(protocol: Protocol, violation: Violation) -> (usize, Option<Vec<String>>) {
    let finish = HasDiscoveries::AnyOf([violation.property()].into());
    let checker = protocol.checker().finish_when(finish).spawn_bfs().join();
    let path = checker.discovery(violation.property());
    let path = path.map(|path| path.into_actions().iter().map(|step| step.label.to_string()).collect());
    (checker.unique_state_count(), path)
}

/// Explores a configuration. Returns the number of its states, and what is wrong.
fn explore(
    configuration: &Configuration,
    protocol: fn(Configuration, Option<BrokenRule>) -> Protocol,
) -> (usize, Vec<String>) {
    let (name, begun) = (configuration.name, Instant::now());
    let checker = protocol(*configuration, None).checker().spawn_bfs().join();
    let states = checker.unique_state_count();
    let (depth, seconds) = (checker.max_depth(), begun.elapsed().as_secs_f64());
    println!("{name:<68} {states:>9} {depth:>6} {seconds:>7.1}");
    let mut wrong = Vec::new();
    for fact in configuration.sometimes {
        if checker.discovery(fact.property()).is_none() {
            wrong.push(format!("{name}: never reached: {}", fact.property()));
        }
    }
    for violation in Violation::ALL {
        if checker.discovery(violation.property()).is_some() {
            let (_, path) = path_to(protocol(*configuration, None), violation);
            let path = path.unwrap_or_default().join("\n    ");
            wrong.push(format!("{name}: violated: {}\n    {path}", violation.property()));
        }
    }
    (states, wrong)
}

#[test]
fn every_configuration_keeps_every_invariant_and_reaches_every_fact() {
    let selection = Selection::from_environment();
    println!("{:<68} {:>9} {:>6} {:>7}", "configuration", "states", "depth", "seconds");
    let normal = configurations::ALL.iter().filter(|one| selection.has(one.name, false));
    let large = large::ALL.iter().filter(|one| selection.has(one.name, true));
    let (mut total, mut wrong) = (0, Vec::new());
    for configuration in normal.chain(large) {
        let (states, found) = explore(configuration, Protocol::new);
        total += states;
        wrong.extend(found);
    }
    println!("{:<68} {total:>9}", "all");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let is_part = matches!(selection, Selection::Some(_));
    assert!(is_part || total >= 1_000_000, "only {total} states were explored");
}

/// Merging states could hide a violation, if it merged too much.
#[test]
fn invariants_hold_without_merging_states() {
    for configuration in unmerged::ALL {
        let (_, wrong) = explore(configuration, Protocol::without_merging);
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        let (_, wrong) = explore(configuration, Protocol::new);
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}

/// All states of a model, except for those that only witness a fact.
fn reachable(protocol: &Protocol) -> HashSet<State> {
    let mut pending = protocol.init_states();
    let mut found: HashSet<_> = pending.iter().cloned().collect();
    let mut steps = Vec::new();
    while let Some(state) = pending.pop() {
        protocol.actions(&state, &mut steps);
        for next in steps.drain(..).filter_map(|step| protocol.next_state(&state, step)) {
            if next.witness.is_none() && found.insert(next.clone()) {
                pending.push(next);
            }
        }
    }
    found
}

/// The merged states are those that stand for a state without merging. Only a lost swap that could no longer be applied is
/// no step once it is forgotten, so with faults of the network some states are missing that have one fault less to come.
#[test]
fn merging_neither_adds_nor_removes_states() {
    for configuration in unmerged::ALL {
        let merging = Protocol::new(*configuration, None);
        let unmerged = reachable(&Protocol::without_merging(*configuration, None));
        let stand_for = |mut state: State| {
            merging.settle(&mut state);
            state
        };
        let expected: HashSet<_> = unmerged.into_iter().map(stand_for).collect();
        let found = reachable(&merging);
        assert_eq!(found.difference(&expected).count(), 0, "{}: invented states", configuration.name);
        if configuration.budget.network == 0 {
            assert_eq!(expected.difference(&found).count(), 0, "{}: missing states", configuration.name);
        }
    }
}

#[test]
fn every_broken_rule_is_caught() {
    let selection = Selection::from_environment();
    println!("{:<34} {:<48} {:>6} {:>9}", "broken rule", "violates", "steps", "states");
    let mut missed = Vec::new();
    for (rule, configuration, violation) in controls::ALL {
        let name = format!("{rule:?}");
        if !selection.has(&name, false) {
            continue;
        }
        let (states, path) = path_to(Protocol::new(*configuration, Some(*rule)), *violation);
        let steps = path.as_ref().map_or("-".to_owned(), |path| path.len().to_string());
        println!("{name:<34} {:<48} {steps:>6} {states:>9}", violation.property());
        match path {
            None => missed.push(name),
            Some(path) if matches!(selection, Selection::Some(_)) => println!("    {}", path.join("\n    ")),
            Some(_) => {}
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
