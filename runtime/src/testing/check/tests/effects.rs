//! Effects that are committed with the end of a run.

use super::*;

/// Commits an effect of a tick.
fn committed(story: Story, at: u64, server: &str, (fence, of): (i64, u64)) -> Story {
    let (tick, store_time) = (Some(tick(of)), self::tick(at));
    story.at(at, server, Observed::Committed { lease: lease(fence), tick, store_time, done_until: None })
}

fn recorded(story: Story, at: u64, fence: i64, is_committed: bool) -> Story {
    story.at(at, "b", Observed::EndRecorded { lease: lease(fence), is_committed })
}

#[test]
fn second_effect_of_a_tick_breaks_i10() {
    let takeover = || {
        let story = Story::new().rules(|rules| rules.takeovers = 1).run((10, 11), "a", 1, 10);
        story.begins_attempt(30, "b", (2, 10, 2))
    };
    committed(takeover(), 31, "b", (2, 10)).holds();
    let twice = || committed(committed(takeover(), 11, "a", (1, 10)), 31, "b", (2, 10));
    twice().breaks(Invariant::OneEffect);
    twice().fault(Fault::StoreLosesWrites, "", (20, 20)).excuses(&[Invariant::OneEffect]);
    twice().fault(Fault::StoreLosesWrites, "", (32, 32)).breaks(Invariant::OneEffect);
    let lowered = |to| twice().at(20, "", Observed::MarkLowered { key: "job".into(), to: tick(to) });
    lowered(9).excuses(&[Invariant::OneEffect]);
    lowered(10).breaks(Invariant::OneEffect);
    // While the first run was in progress.
    let early = |at| twice().at(at, "", Observed::MarkLowered { key: "job".into(), to: tick(9) });
    early(10).excuses(&[Invariant::OneEffect]);
    early(9).breaks(Invariant::OneEffect);
    // One of each tick.
    let next = Story::new().run((10, 12), "a", 1, 10).run((20, 22), "b", 2, 20);
    committed(committed(next, 11, "a", (1, 10)), 21, "b", (2, 20)).holds();
}

#[test]
fn second_effect_while_the_work_is_done_breaks_i10() {
    let done = |again| {
        let effect = |story: Story, at, fence| {
            let (lease, done_until) = (lease(fence), Some(tick(at + 10)));
            let committed = Observed::Committed { lease, tick: None, store_time: tick(at), done_until };
            story.at(at, "a", committed)
        };
        effect(effect(Story::new(), 10, 1), again, 2)
    };
    done(20).holds();
    done(19).breaks(Invariant::OneEffect);
}

#[test]
fn effect_of_a_stale_lease_breaks_i10() {
    let stale = |at| {
        let story = Story::new().run((10, 11), "a", 1, 10).run((20, 21), "b", 2, 20);
        committed(story, at, "a", (1, 10))
    };
    stale(19).holds();
    stale(21).breaks(Invariant::OneEffect);
    // The store lost the newer lease, and its clock went back, before the older one was won.
    let lost = |at| {
        let story = Story::new().run((10, 11), "a", 2, 10).run((100, 102), "b", 1, 100);
        let story = committed(story, 101, "b", (1, 100)).fault(Fault::StoreClockBack, "", (at, at));
        story.fault(Fault::StoreLosesWrites, "", (at, at))
    };
    lost(50).excuses(&[Invariant::GrowingFences, Invariant::OneEffect]);
    // The clock went back between two manual locks, the first of which left no record; or only after the effect.
    let manual = |fault| {
        let held = |story: Story, (from, until): (u64, u64), fence| {
            let (lease, store_time) = (lease(fence), tick(from));
            let began =
                Observed::Began { lease: lease.clone(), tick: None, attempt: 1, retry: 0, store_time };
            story.at(from, "a", began).at(until, "a", Observed::Ended(lease))
        };
        let story = held(held(Story::new(), (10, 11), 2), (100, 102), 1);
        let (lease, store_time) = (lease(1), tick(101));
        let effect = Observed::Committed { lease, tick: None, store_time, done_until: None };
        story.at(101, "a", effect).fault(Fault::StoreClockBack, "", (fault, fault))
    };
    manual(50).excuses(&[Invariant::GrowingFences, Invariant::OneEffect]);
    let verdict = check(&manual(103).trace);
    assert!(verdict.violations.iter().any(|violation| violation.invariant == Invariant::OneEffect));
    let broken = |at| {
        let story = Story::new().run((10, 20), "a", 1, 10).at(at, "", Observed::Broken("job".into()));
        committed(story, 15, "a", (1, 10))
    };
    broken(16).holds();
    broken(10).holds();
    broken(14).breaks(Invariant::OneEffect);
}

#[test]
fn record_that_contradicts_an_effect_breaks_i10() {
    let run = || Story::new().run((10, 12), "a", 1, 10);
    recorded(run(), 13, 1, false).holds();
    recorded(run(), 13, 1, true).breaks(Invariant::OneEffect);
    recorded(committed(run(), 11, "a", (1, 10)), 13, 1, true).holds();
    let crashed = || recorded(committed(run(), 11, "a", (1, 10)), 13, 1, false);
    crashed().breaks(Invariant::OneEffect);
    crashed().fault(Fault::StoreLosesWrites, "", (12, 12)).excuses(&[Invariant::OneEffect]);
    // A late message.
    committed(recorded(run(), 13, 1, false), 14, "a", (1, 10)).breaks(Invariant::OneEffect);
}
