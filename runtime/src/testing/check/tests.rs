//! For each invariant: a history that breaks it, and one as near as possible that does not.

mod effects;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::Timestamp;

/// A trace of a job `job` with a ttl of 10 s, in seconds.
struct Story {
    trace: Trace,
}

fn seconds(at: u64) -> u64 {
    at * 1_000_000
}

fn tick(at: u64) -> Timestamp {
    Timestamp::from_micros(i64::try_from(seconds(at)).unwrap())
}

fn lease(fence: i64) -> LeaseRef {
    LeaseRef { key: "job".into(), fence }
}

impl Story {
    fn new() -> Self {
        let mut trace = Trace::default();
        trace.keys.insert("job".to_owned(), KeyRules::with_ttl(Duration::from_secs(10)));
        Self { trace }.at(0, "a", Observed::ServerStarted).at(0, "b", Observed::ServerStarted)
    }

    fn rules(mut self, change: impl FnOnce(&mut KeyRules)) -> Self {
        change(self.trace.keys.get_mut("job").unwrap());
        self
    }

    fn in_real_time(mut self) -> Self {
        self.trace.slack = Duration::from_secs(1);
        self
    }

    fn at(mut self, at: u64, server: &str, what: Observed) -> Self {
        self.trace.add(seconds(at), &Arc::from(server), what);
        self
    }

    fn begins(self, at: u64, server: &str, fence: i64, of: u64) -> Self {
        self.begins_attempt(at, server, (fence, of, 1))
    }

    fn begins_attempt(self, at: u64, server: &str, (fence, of, attempt): (i64, u64, u32)) -> Self {
        let tick = Some(tick(of));
        let store_time = Timestamp::from_micros(i64::try_from(seconds(at)).unwrap());
        self.at(at, server, Observed::Began { lease: lease(fence), tick, attempt, retry: 0, store_time })
    }

    fn run(self, (from, until): (u64, u64), server: &str, fence: i64, of: u64) -> Self {
        self.begins(from, server, fence, of).at(until, server, Observed::Ended(lease(fence)))
    }

    fn due(self, ticks: impl IntoIterator<Item = u64>) -> Self {
        self.due_on(None, ticks)
    }

    fn due_on(mut self, servers: Option<&[&str]>, ticks: impl IntoIterator<Item = u64>) -> Self {
        for at in ticks {
            let servers = servers.map(|servers| servers.iter().copied().map(Arc::from).collect());
            self = self.at(at, "", Observed::Due { key: "job".into(), tick: tick(at), servers });
        }
        self
    }

    fn explained(self, first: u64, until: u64, why: &str) -> Self {
        let (first, until) = (tick(first), tick(until));
        self.at(0, "a", Observed::Explained { key: "job".into(), first, until, why: why.into() })
    }

    fn fault(self, fault: Fault, server: &str, (from, until): (u64, u64)) -> Self {
        self.at(from, server, Observed::FaultBegan(fault)).at(until, server, Observed::FaultEnded(fault))
    }

    #[track_caller]
    fn holds(self) {
        let verdict = check(&self.trace);
        assert_eq!((verdict.violations, verdict.excused), (vec![], vec![]));
    }

    #[track_caller]
    fn breaks(self, invariant: Invariant) {
        let verdict = check(&self.trace);
        let broken: Vec<_> = verdict.violations.iter().map(|violation| violation.invariant).collect();
        assert_eq!(broken, [invariant], "{:?}", verdict.violations);
    }

    #[track_caller]
    fn excuses(self, invariants: &[Invariant]) {
        let verdict = check(&self.trace);
        let mut excused: Vec<_> = verdict.excused.iter().map(|violation| violation.invariant).collect();
        excused.sort();
        assert_eq!((verdict.violations, &*excused), (vec![], invariants));
    }
}

#[test]
fn tick_that_starts_twice_breaks_i1() {
    Story::new().run((10, 11), "a", 1, 10).run((20, 21), "b", 2, 20).holds();
    Story::new().run((10, 11), "a", 1, 10).run((20, 21), "b", 2, 10).breaks(Invariant::OneStart);
}

#[test]
fn second_start_after_lost_writes_excuses() {
    Story::new()
        .run((10, 11), "a", 1, 10)
        .fault(Fault::StoreLosesWrites, "", (12, 12))
        .run((20, 21), "b", 2, 10)
        .excuses(&[Invariant::OneStart]);
}

#[test]
fn second_start_of_a_tick_that_an_operator_freed_excuses() {
    let reset = |to| {
        let lowered = Observed::MarkLowered { key: "job".into(), to: tick(to) };
        Story::new().run((10, 11), "a", 1, 10).at(12, "", lowered).run((20, 21), "b", 2, 10)
    };
    reset(9).excuses(&[Invariant::OneStart]);
    reset(10).breaks(Invariant::OneStart);
}

#[test]
fn second_lease_with_the_fence_of_an_ended_one_is_a_lease_of_its_own() {
    let again = |faults: &[Fault]| {
        let story = Story::new().run((10, 11), "a", 1, 10).run((12, 13), "a", 2, 12);
        let story = faults.iter().fold(story, |story, fault| story.fault(*fault, "", (14, 14)));
        story.run((20, 21), "a", 1, 20)
    };
    again(&[Fault::StoreLosesWrites, Fault::StoreClockBack]).excuses(&[Invariant::GrowingFences]);
    again(&[Fault::StoreClockBack]).breaks(Invariant::GrowingFences);
}

#[test]
fn takeover_is_a_start_of_its_own_and_no_more_than_allowed() {
    let takeover = |attempt, takeovers| {
        Story::new().rules(|rules| rules.takeovers = takeovers).run((10, 11), "a", 1, 10).begins_attempt(
            20,
            "b",
            (2, 10, attempt),
        )
    };
    takeover(2, 1).holds();
    takeover(1, 1).breaks(Invariant::OneStart);
    takeover(3, 1).breaks(Invariant::OneStart);
    takeover(2, 0).breaks(Invariant::OneStart);
}

#[test]
fn overlap_breaks_i2_unless_the_holder_was_stopped_and_takes_no_step() {
    let overlap = || Story::new().begins(10, "a", 1, 10).begins(30, "b", 2, 30);
    overlap().breaks(Invariant::NoOverlap);
    let stopped = || overlap().fault(Fault::Stop, "a", (12, 40));
    stopped().excuses(&[Invariant::NoOverlap]);
    stopped().at(41, "a", Observed::Stepped(lease(1))).breaks(Invariant::NoOverlap);
    // It was stopped in the middle of a step.
    let continued = || stopped().at(40, "a", Observed::Stepped(lease(1))).in_real_time();
    continued().excuses(&[Invariant::NoOverlap]);
    stopped().at(40, "a", Observed::Stepped(lease(1))).breaks(Invariant::NoOverlap);
    continued().at(40, "a", Observed::Stepped(lease(1))).breaks(Invariant::NoOverlap);
    overlap().fault(Fault::Overload, "", (12, 40)).excuses(&[Invariant::NoOverlap]);
    // Of two faults that overlap, each ends once.
    let twice = |story: Story| story.fault(Fault::Stop, "a", (2, 6)).fault(Fault::Stop, "a", (3, 5));
    twice(overlap()).breaks(Invariant::NoOverlap);
    overlap().fault(Fault::Stop, "b", (12, 20)).breaks(Invariant::NoOverlap);
    overlap().at(25, "a", Observed::ServerEnded).holds();
    overlap().rules(|rules| rules.permits = 2).holds();
}

#[test]
fn fence_that_does_not_grow_breaks_i3() {
    Story::new().run((10, 11), "a", 2, 10).run((20, 21), "b", 1, 20).breaks(Invariant::GrowingFences);
    Story::new().run((10, 11), "a", 2, 10).run((20, 21), "b", 2, 20).breaks(Invariant::GrowingFences);
    let jumped = |at| {
        let story = Story::new().run((18, 19), "a", 2, 10).fault(Fault::StoreClockForward, "", (at, at));
        story.run((20, 21), "b", 1, 20)
    };
    jumped(15).excuses(&[Invariant::GrowingFences]);
    jumped(5).breaks(Invariant::GrowingFences);
    let slots = |fence| {
        let story = Story::new().rules(|rules| rules.permits = 2);
        story.begins(10, "a", 2, 10).begins(20, "b", fence, 20)
    };
    slots(1).holds();
    slots(2).breaks(Invariant::GrowingFences);
    // A manual lock that is restored after lost writes.
    let restored = |fence, tick: Option<Timestamp>| {
        let begin = |story: Story, (at, server), fence| {
            let (lease, store_time) = (lease(fence), Timestamp::from_micros(i64::MAX));
            let began = Observed::Began { lease: lease.clone(), tick, attempt: 1, retry: 0, store_time };
            story.at(at, server, began).at(at + 1, server, Observed::Ended(lease))
        };
        let story =
            Story::new().rules(|rules| rules.takeovers = 1).fault(Fault::StoreLosesWrites, "", (19, 19));
        begin(begin(story, (20, "a"), 2), (22, "b"), fence)
    };
    restored(1, None).excuses(&[Invariant::GrowingFences]);
    restored(2, None).breaks(Invariant::GrowingFences);
    // Won, broken, and begun only then.
    let broken = |at, fence| {
        let story = Story::new().at(at, "", Observed::Broken("job".into()));
        story.run((20, 21), "a", 2, 20).run((22, 23), "b", fence, 10)
    };
    broken(19, 1).excuses(&[Invariant::GrowingFences]);
    broken(19, 2).breaks(Invariant::GrowingFences);
    broken(11, 1).breaks(Invariant::GrowingFences);
    // Won, lost by the store, and begun only then.
    let lost = |at| {
        let story = Story::new().fault(Fault::StoreLosesWrites, "", (at, at));
        story.run((20, 21), "a", 2, 20).run((22, 23), "b", 1, 10)
    };
    lost(19).excuses(&[Invariant::GrowingFences]);
    lost(5).breaks(Invariant::GrowingFences);
}

#[test]
fn lease_that_is_lost_without_a_fault_breaks_i4() {
    let lost = || Story::new().run((10, 15), "a", 1, 10).at(15, "a", Observed::Lost(lease(1)));
    lost().breaks(Invariant::OwnLeaseOnly);
    lost().fault(Fault::CutOff, "a", (11, 15)).holds();
    lost().fault(Fault::CutOff, "b", (11, 15)).breaks(Invariant::OwnLeaseOnly);
    lost().fault(Fault::StoreOutage, "", (11, 15)).holds();
    lost().at(14, "", Observed::Broken("job".into())).holds();
}

#[test]
fn lease_that_another_server_changed_breaks_i4() {
    let story = Story::new().run((10, 15), "a", 1, 10).at(12, "b", Observed::Overwrote(lease(1)));
    story.breaks(Invariant::OwnLeaseOnly);
}

#[test]
fn fleet_that_does_not_recover_breaks_i5() {
    let healed =
        || Story::new().due((10..100).step_by(10)).run((10, 11), "a", 1, 10).at(30, "", Observed::Healed);
    let ended = |story: Story| story.at(100, "", Observed::Finished);
    ended(healed()).breaks(Invariant::Recovery);
    ended(healed().run((50, 51), "a", 2, 50).explained(20, 50, "missed")).holds();
    ended(healed().explained(20, 100, "paused")).holds();
    let long_run = |until| ended(healed().explained(20, 100, HELD).run((25, until), "a", 2, 20));
    long_run(95).holds();
    long_run(50).breaks(Invariant::Recovery);
    ended(healed().at(100, "", Observed::HeldAtEnd(lease(1))).explained(20, 100, "paused"))
        .breaks(Invariant::Recovery);
}

#[test]
fn stale_write_that_is_accepted_breaks_i6() {
    let writes = |fences: [i64; 2]| {
        let [first, second] = fences.map(|fence| Observed::Wrote(lease(fence)));
        Story::new().at(10, "a", first).at(20, "b", second)
    };
    writes([1, 2]).holds();
    writes([2, 2]).holds();
    writes([2, 1]).breaks(Invariant::FencedWrites);
}

#[test]
fn early_start_breaks_i7() {
    Story::new().run((9, 11), "a", 1, 10).breaks(Invariant::NotEarly);
}

#[test]
fn tick_that_no_report_explains_breaks_i8() {
    let gap = || Story::new().due([10, 20, 30]).run((10, 11), "a", 1, 10).run((30, 31), "a", 2, 30);
    gap().breaks(Invariant::Explained);
    gap().explained(20, 30, "missed").holds();
    gap().fault(Fault::StoreLosesWrites, "", (25, 25)).excuses(&[Invariant::Explained]);
    // The newest ticks may still be decided.
    Story::new().due([10, 20, 30]).run((10, 11), "a", 1, 10).holds();
}

#[test]
fn hung_server_that_blocks_others_breaks_i9() {
    let hung = |story: Story| {
        story
            .due((10..100).step_by(10))
            .explained(20, 100, HELD)
            .fault(Fault::BlockApplication, "a", (15, 90))
            .at(100, "", Observed::Finished)
    };
    let after_a_run = || hung(Story::new().run((10, 11), "a", 1, 10));
    after_a_run().breaks(Invariant::HungServer);
    after_a_run().run((40, 41), "b", 2, 40).holds();
    after_a_run().fault(Fault::StoreOutage, "", (15, 90)).holds();
    after_a_run().fault(Fault::Kill, "b", (20, 20)).holds();
    after_a_run().fault(Fault::Deploy, "a", (20, 24)).holds();
    after_a_run().fault(Fault::Deploy, "b", (2, 3)).breaks(Invariant::HungServer);
    // No other server has the job.
    after_a_run().at(0, "b", Observed::LacksJob("job".into())).holds();
    // No other server has these ticks.
    let due_on = |servers| {
        let story = Story::new().run((10, 11), "a", 1, 10).due_on(Some(servers), (10..100).step_by(10));
        let story = story.explained(20, 100, HELD).fault(Fault::BlockApplication, "a", (15, 90));
        story.at(100, "", Observed::Finished)
    };
    due_on(&["a"]).holds();
    due_on(&["a", "b"]).breaks(Invariant::HungServer);
    // A failover brings a lock of another program back.
    let after_a_lock = |lost| {
        let story = after_a_run().fault(Fault::ForeignLock, "", (2, 3));
        story.fault(Fault::StoreLosesWrites, "", (lost, lost))
    };
    after_a_lock(4).excuses(&[Invariant::HungServer]);
    after_a_lock(1).breaks(Invariant::HungServer);
    // A run that has begun keeps its lease.
    hung(Story::new().begins(10, "a", 1, 10)).holds();
    // Another server that hangs keeps a lease for a ttl, too.
    let both = |other| {
        let story = Story::new().run((10, 11), "a", 1, 10).due([10, 20, 30, 40]).explained(20, 50, HELD);
        let story = story.fault(Fault::BlockApplication, "a", (15, 45)).fault(Fault::CutOff, "c", other);
        story.at(100, "", Observed::Finished)
    };
    both((28, 60)).holds();
    both((2, 5)).breaks(Invariant::HungServer);
    // So does one whose releases get lost: the run of `c` ends before its ttl of 10 s is over.
    let after_a_run_of_c = || {
        let story = Story::new().run((10, 11), "a", 1, 10).run((24, 25), "c", 2, 20).due([10, 20, 28, 33]);
        let story = story.explained(28, 50, HELD).fault(Fault::BlockApplication, "a", (15, 45));
        story.at(100, "", Observed::Finished)
    };
    after_a_run_of_c().fault(Fault::BadNetwork, "c", (22, 26)).holds();
    after_a_run_of_c().fault(Fault::BadNetwork, "c", (22, 23)).breaks(Invariant::HungServer);
    // So does one that is replaced while its application is blocked.
    let replaced = || after_a_run_of_c().at(25, "c", Observed::ServerEnded);
    replaced().at(12, "c", Observed::FaultBegan(Fault::BlockApplication)).holds();
    replaced().breaks(Invariant::HungServer);
}
