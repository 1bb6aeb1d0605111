use super::{Control, Plan, PlantedBug, StoreLosses, seeds_to_find, shrink, simulate};

fn losses(seed: u64) -> StoreLosses {
    if seed % 5 == 4 { StoreLosses::Lossy } else { StoreLosses::None }
}

#[test]
fn seed_repeats_its_history_byte_for_byte() {
    for seed in 0..5 {
        let plan = Plan::draw(seed, losses(seed));
        assert_eq!(plan.to_string(), Plan::draw(seed, losses(seed)).to_string());
        let [first, second] = [0, 1].map(|_| simulate(&plan));
        let [one, other] = [&first, &second].map(|simulated| {
            let lines: Vec<_> = simulated.trace.observations.iter().map(ToString::to_string).collect();
            lines.join("\n")
        });
        assert!(one == other, "seed {seed} has two histories");
        assert_eq!(first.coverage, second.coverage, "seed {seed}");
    }
}

/// Missed ticks of a schedule that an older server passed (121) or reported by its own schedule (8828), and a retry after the
/// store's clock was set back (5869).
#[test]
fn promise_holds_in_seeds_that_once_broke_it() {
    for seed in [121, 5869, 8828] {
        // As the plans were then.
        let plan = Plan::draw(seed, losses(seed)).without_effects();
        let violations = simulate(&plan).verdict.violations;
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

#[test]
fn plain_lock_and_planted_bugs_are_found_within_few_seeds() {
    for (control, most) in [
        (Control::PlainLock, 5),
        (Control::BareDelete, 20),
        (Control::KeepAliveStops, 20),
        (Control::Planted(PlantedBug::ResendsOldDecision), 20),
        (Control::Planted(PlantedBug::TakesOverTooSoon), 20),
        (Control::Planted(PlantedBug::IgnoresFinish), 40),
        (Control::UncheckedCommit, 100),
    ] {
        assert!(seeds_to_find(control, most).is_some(), "{control} is not found within {most} seeds");
    }
}

#[test]
fn shrunk_plan_still_fails_and_is_smaller() {
    let control = Control::Planted(PlantedBug::TakesOverTooSoon);
    let fails = |plan: &Plan| {
        simulate(plan).verdict.violations.iter().any(|violation| violation.invariant == control.breaks())
    };
    let mut plans = (0..100).map(|seed| Plan::draw(seed, StoreLosses::None).with_control(control));
    let plan = plans.find(fails).expect("it is found");
    let shrunk = shrink(&plan, fails);
    assert!(fails(&shrunk));
    assert!(shrunk.size() < plan.size(), "{shrunk}");
}
