use jobs::Timestamp;
use jobs::schedule::Schedule;

#[track_caller]
fn assert_ticks(text: &str, zone: &str, between: [&str; 2], expected: &[&str]) {
    let schedule = Schedule::parse(text, Some(zone)).unwrap();
    let [from, to] = between.map(|date| {
        let instant: jiff::Timestamp = format!("{date}Z").parse().unwrap();
        instant.as_microsecond()
    });
    let before = schedule.next_after(Timestamp::from_micros(from - 1));
    let ticks: Vec<_> = std::iter::successors(before, |tick| super::later_than(*tick, &schedule))
        .take_while(|tick| tick.as_micros() < to)
        .map(|tick| tick.to_string().trim_end_matches(":00Z").to_owned())
        .collect();
    assert_eq!(ticks, expected);
}

#[test]
fn new_york_half_past_one_happens_once_on_the_spring_day() {
    assert_ticks(
        "30 1 * * *",
        "America/New_York",
        ["2024-03-09T12:00", "2024-03-11T12:00"],
        &["2024-03-10T06:30", "2024-03-11T05:30"],
    );
}

#[test]
fn new_york_half_past_one_happens_once_on_the_autumn_day() {
    assert_ticks(
        "30 1 * * *",
        "America/New_York",
        ["2024-11-02T12:00", "2024-11-04T12:00"],
        &["2024-11-03T05:30", "2024-11-04T06:30"],
    );
}

#[test]
fn berlin_half_past_two_is_moved_to_three_on_the_spring_day() {
    assert_ticks(
        "30 2 * * *",
        "Europe/Berlin",
        ["2024-03-30T00:00", "2024-04-01T12:00"],
        &["2024-03-30T01:30", "2024-03-31T01:00", "2024-04-01T00:30"],
    );
}

#[test]
fn berlin_two_and_three_are_one_tick_on_the_spring_day() {
    let day = ["2024-03-30T22:00", "2024-03-31T22:00"];
    assert_ticks(
        "0 1-4 * * *",
        "Europe/Berlin",
        day,
        &["2024-03-31T00:00", "2024-03-31T01:00", "2024-03-31T02:00"],
    );
}

#[test]
fn berlin_half_past_two_fires_once_on_the_autumn_day_from_every_instant() {
    let day = ["2024-10-26T22:00", "2024-10-27T23:00"];
    assert_ticks("30 2 * * *", "Europe/Berlin", day, &["2024-10-27T00:30"]);
    let in_the_second_pass = ["2024-10-27T01:10", "2024-10-27T23:00"];
    assert_ticks("30 2 * * *", "Europe/Berlin", in_the_second_pass, &[]);
}

#[test]
fn berlin_every_half_hour_skips_the_gap_and_runs_through_both_hours_of_the_fold() {
    assert_ticks(
        "*/30 2 * * *",
        "Europe/Berlin",
        ["2024-10-26T22:00", "2024-10-27T23:00"],
        &["2024-10-27T00:00", "2024-10-27T00:30", "2024-10-27T01:00", "2024-10-27T01:30"],
    );
    assert_ticks("*/30 2 * * *", "Europe/Berlin", ["2024-03-30T23:00", "2024-03-31T22:00"], &[]);
}

#[test]
fn lord_howe_moves_its_clocks_by_half_an_hour() {
    let autumn = ["2024-04-06T13:00", "2024-04-06T16:29"];
    assert_ticks("45 1 * * *", "Australia/Lord_Howe", autumn, &["2024-04-06T14:45"]);
    assert_ticks(
        "45 * * * *",
        "Australia/Lord_Howe",
        autumn,
        &["2024-04-06T13:45", "2024-04-06T14:45", "2024-04-06T15:15", "2024-04-06T16:15"],
    );
    let spring = ["2024-10-05T15:00", "2024-10-05T17:00"];
    assert_ticks("15 2 * * *", "Australia/Lord_Howe", spring, &["2024-10-05T15:30"]);
}

#[test]
fn samoa_had_no_30_december_2011_and_its_jobs_ran_as_the_31st_began() {
    let days = ["2011-12-29T10:00", "2012-01-01T10:00"];
    assert_ticks(
        "0 9 * * *",
        "Pacific/Apia",
        days,
        &["2011-12-29T19:00", "2011-12-30T10:00", "2011-12-30T19:00", "2011-12-31T19:00"],
    );
    assert_ticks("0 9 30 12 *", "Pacific/Apia", days, &["2011-12-30T10:00"]);
    assert_ticks(
        "0 0 * * *",
        "Pacific/Apia",
        days,
        &["2011-12-29T10:00", "2011-12-30T10:00", "2011-12-31T10:00"],
    );
}

#[test]
fn troll_moves_its_clocks_by_two_hours() {
    let spring = ["2024-03-31T00:00", "2024-03-31T04:00"];
    assert_ticks("30 1,2 * * *", "Antarctica/Troll", spring, &["2024-03-31T01:00"]);
    let autumn = ["2024-10-27T00:00", "2024-10-27T04:00"];
    assert_ticks(
        "30 1,2 * * *",
        "Antarctica/Troll",
        ["2024-10-26T23:00", "2024-10-27T04:00"],
        &["2024-10-26T23:30", "2024-10-27T00:30"],
    );
    assert_ticks("30 2-2/1 * * *", "Antarctica/Troll", autumn, &["2024-10-27T00:30", "2024-10-27T02:30"]);
}

#[test]
fn morocco_leaves_its_summer_time_for_ramadan() {
    for zone in ["Africa/Casablanca", "Africa/El_Aaiun"] {
        let begin = ["2024-03-09T12:00", "2024-03-11T12:00"];
        assert_ticks("30 2 * * *", zone, begin, &["2024-03-10T01:30", "2024-03-11T02:30"]);
        let end = ["2024-04-13T12:00", "2024-04-15T12:00"];
        assert_ticks("30 2 * * *", zone, end, &["2024-04-14T02:00", "2024-04-15T01:30"]);
    }
}

#[test]
fn cairo_loses_and_repeats_the_hour_at_midnight() {
    let spring = ["2024-04-24T12:00", "2024-04-26T12:00"];
    assert_ticks("0 0 * * *", "Africa/Cairo", spring, &["2024-04-24T22:00", "2024-04-25T22:00"]);
    let autumn = ["2024-10-30T12:00", "2024-11-01T12:00"];
    assert_ticks("30 23 * * *", "Africa/Cairo", autumn, &["2024-10-30T20:30", "2024-10-31T20:30"]);
}

/// The last entry of its table is later than the same year's change by its rule, which confuses searches
/// backwards.
#[test]
fn ciudad_juarez_repeats_the_last_hour_of_a_november_day_once() {
    let night = ["2022-11-30T06:10", "2022-12-01T12:00"];
    assert_ticks("59 23 * * *", "America/Ciudad_Juarez", night, &["2022-12-01T06:59"]);
}

/// The reason why ticks are not left to croner. If this fails croner was mended, and the guard can go.
#[test]
fn croner_alone_fires_twice_on_the_spring_day_in_new_york() {
    let pattern: croner::Cron = "30 1 * * *".parse().unwrap();
    let midnight = jiff::civil::date(2024, 3, 10).at(0, 0, 0, 0);
    let zone = jiff::tz::TimeZoneDatabase::bundled().get("America/New_York").unwrap();
    let midnight = zone.to_zoned(midnight).unwrap();
    // An error would end the series early, and the count would show it.
    let next = |after: &jiff::Zoned| pattern.find_next_occurrence(after, false).ok();
    let fired = std::iter::successors(next(&midnight), next);
    assert_eq!(fired.take_while(|at| at.date() == midnight.date()).count(), 2);
}
