//! What a race looks like in the log.

use std::collections::BTreeMap;

use support::fleet::{Orders, field, wait_until};
use support::home::Kind;

pub fn losing_server_logs_one_debug_line_that_never_names_itself_as_the_winner(store: Kind) {
    let home = store.home();
    let both = Orders::serve(&home).set("WORKER_SERVERS", 2).set("WORKER_EVERY", "300ms").start();
    both.wait_for("ready");
    // What a start has to say of its store is none of the race's.
    let at_start = both.log().len();
    let lost = || -> Vec<_> {
        both.log().into_iter().filter(|line| line.contains("another server has it, skipping")).collect()
    };
    wait_until("ten races", || lost().len() >= 10);

    let mut lines_of: BTreeMap<_, u32> = BTreeMap::new();
    for line in lost() {
        let field = |name| field(&line, name).expect(name);
        let (loser, winner) = (field("server"), field("winner"));
        assert_ne!(loser, winner, "{line}");
        assert!(line.starts_with("DEBUG"), "{line}");
        *lines_of.entry((loser, field("tick"))).or_default() += 1;
    }
    assert!(lines_of.values().all(|lines| *lines == 1), "{lines_of:?}");
    for step in both.steps().iter().filter(|step| step.what == "start") {
        let loser_and_tick = (step.server.clone(), step.tick.to_string());
        assert!(!lines_of.contains_key(&loser_and_tick), "{} won and lost {}", step.server, step.tick);
    }
    let is_loud = |line: &String| line.starts_with("WARN") || line.starts_with("ERROR");
    // A machine that stalls misses ticks, and says so.
    let missed = |line: &String| field(line, "outcome").as_deref() == Some("missed");
    let loud: Vec<_> =
        both.log().into_iter().skip(at_start).filter(|line| is_loud(line) && !missed(line)).collect();
    assert!(loud.is_empty(), "{loud:?}");
}
