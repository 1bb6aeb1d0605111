//! Ticks that are due, overdue or upcoming, and those that are not on record.

use jiff::tz::TimeZone;
use singleton_jobs_policy::jiff;

use super::*;

#[test]
fn due_tick_names_what_is_in_the_way() {
    let due = || Case::new().with(|case| case.now = at(5, 0) + Duration::from_secs(10));
    says(due(), at(5, 0), TickFate::Due, "is due: a server may start it until 05:01");
    let paused = due().with(|case| case.state.pause = Some(pause()));
    let sentence = "is due, and will be skipped: the job is paused by anna since 02:30: supplier down";
    says(paused, at(5, 0), TickFate::Due, sentence);
    let held = due().with(|case| case.state.claimant = Some(lease(Some(at(4, 0)))));
    let sentence =
        "is due, and waits or will be skipped: the run of 04:00 is in progress on web-2 since 04:00";
    says(held, at(5, 0), TickFate::Due, sentence);
    let manual = due().with(|case| case.state.claimant = Some(lease(None)));
    let sentence = "is due, and waits or will be skipped: a manual run is in progress on web-2 since 04:00";
    says(manual, at(5, 0), TickFate::Due, sentence);
    let foreign = |until| due().with(|case| case.lock = Some(SharedLock { token: "x".into(), until }));
    let sentence = "is due, and waits or will be skipped: another program holds the lock, for another 20.0s";
    says(foreign(Some(at(5, 0) + Duration::from_secs(30))), at(5, 0), TickFate::Due, sentence);
    let sentence = "is due, and waits or will be skipped: another program holds the lock, without an expiry";
    says(foreign(None), at(5, 0), TickFate::Due, sentence);
    let alone = due().with(|case| case.servers.clear());
    says(alone, at(5, 0), TickFate::Due, "is due, but no server is alive; start one");
}

#[test]
fn overdue_tick_names_the_servers_that_could_have_run_it() {
    let why = "at the limit of concurrent runs, without a connection to the store, or with a blocked application; their \
               logs say which (RUST_LOG=jobs=debug)";
    let one = format!("was not started by the one server that has the job, web-1: {why}");
    says(Case::new(), at(5, 0), TickFate::Overdue, &one);
    let two = Case::new().with(|case| case.servers.push(server("web-2", "import")));
    let several = format!("was not started by any of the 2 servers that have the job: {why}");
    says(two, at(5, 0), TickFate::Overdue, &several);
    let without = |servers: Vec<ServerInfo>| Case::new().with(|case| case.servers = servers);
    says(without(vec![]), at(5, 0), TickFate::Overdue, "was not started: no server is alive; start one");
    let other = vec![server("web-1", "other")];
    let sentence =
        "was not started: the only server alive does not have this job; deploy it, or enable it there";
    says(without(other), at(5, 0), TickFate::Overdue, sentence);
    let others = vec![server("web-1", "other"), server("web-2", "other")];
    let sentence = "was not started: none of the 2 servers alive has this job; deploy it, or enable it there";
    says(without(others), at(5, 0), TickFate::Overdue, sentence);
}

#[test]
fn upcoming_tick_says_when_and_whether_it_will_be_skipped() {
    says(Case::new(), at(6, 0), TickFate::Upcoming, "is due in 50m 0s");
    let paused = |until| Case::new().with(|case| case.state.pause = Some(Pause { until, ..pause() }));
    let sentence =
        "is due in 50m 0s, and will be skipped: the job is paused by anna since 02:30: supplier down";
    says(paused(None), at(6, 0), TickFate::Upcoming, sentence);
    says(paused(Some(at(5, 30))), at(6, 0), TickFate::Upcoming, "is due in 50m 0s");
    let alone = Case::new().with(|case| case.servers.clear());
    says(alone, at(6, 0), TickFate::Upcoming, "is due in 50m 0s, but no server is alive; start one");
}

#[test]
fn tick_without_a_record_says_why_there_is_none() {
    says(Case::new(), at(4, 0), TickFate::NotOnRecord, "was started by web-1 at 04:00; its record is gone");
    let skipped = Case::new().with(|case| case.state.mark.as_mut().unwrap().skip = Some(Skip::Held));
    says(skipped, at(4, 0), TickFate::NotOnRecord, "was skipped by web-1 at 04:00; its record is gone");
    let sentence = "is not on record: the store keeps only the newest runs and skips";
    says(Case::new(), at(2, 0), TickFate::NotOnRecord, sentence);
    let sentence = "is not on record: the job was registered, or last resumed, at 00:30";
    says(Case::new(), at(0, 0), TickFate::NotOnRecord, sentence);
    let sentence = "is not on record: the store keeps the newest runs and skips, here back to 03:00";
    for tick in [at(2, 0), at(0, 0)] {
        says(Case::new().run(|_| {}), tick, TickFate::NotOnRecord, sentence);
    }
}

#[test]
fn instant_that_is_no_tick_names_those_around_it() {
    let sentence =
        "is no tick of the schedule 0 * * * * UTC: the tick before is 03:00, the next one is 04:00";
    says(Case::new(), at(3, 7), TickFate::NotScheduled, sentence);
    let unscheduled = Case::new().with(|case| case.state.registered = None);
    let sentence = "is no tick: the job has no schedule, and runs only manually";
    says(unscheduled, at(3, 0), TickFate::NotScheduled, sentence);
}

#[test]
fn newest_ticks_come_from_the_schedule_and_from_the_records() {
    // The schedule has changed: 03:30 was a tick of the old one.
    let ticks = Case::new().run(|run| run.tick = Some(at(3, 30))).ticks();
    let newest: Vec<_> = ticks.newest(10).into_iter().map(|report| report.tick).collect();
    assert_eq!(newest, [at(5, 0), at(4, 0), at(3, 30), at(3, 0), at(2, 0), at(1, 0)], "none before the job");
    assert_eq!(ticks.newest(2).len(), 2);
    assert_eq!(ticks.next().map(|report| report.tick), Some(at(6, 0)));
}

#[test]
fn times_are_shown_in_the_zone_and_with_a_date_that_differs() {
    let case = Case::new().skip(Skip::Paused, |skip| {
        skip.pause = Some(Pause { since: at(-26, 0), until: Some(at(5, 30)), ..pause() });
    });
    let ticks = case.ticks().in_zone(TimeZone::get("Europe/Berlin").unwrap());
    let sentence =
        "was skipped because the job was paused by anna since 2026-11-15 23:00, until 06:30: supplier down";
    assert_eq!(ticks.at(at(3, 0)).reason, sentence);
}
