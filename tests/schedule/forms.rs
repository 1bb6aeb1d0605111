//! When a schedule is due, in UTC: what each form of it means, and that its two questions agree.

use std::time::Duration;

use jobs::Timestamp;
use jobs::schedule::Schedule;

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(instant.as_microsecond())
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text, None).unwrap()
}

/// The ticks after an instant, without the seconds where they are zero.
fn ticks(text: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = schedule(text);
    std::iter::successors(schedule.next_after(at(after)), |tick| schedule.next_after(*tick))
        .take(count)
        .map(|tick| tick.to_string().trim_end_matches(":00Z").to_owned())
        .collect()
}

fn days(text: &str, after: &str, count: usize) -> Vec<String> {
    ticks(text, after, count).iter().map(|tick| tick[..10].to_owned()).collect()
}

#[test]
fn five_fields_start_with_the_minute() {
    assert_eq!(ticks("30 4 * * *", "2024-01-01T00:00:00Z", 2), ["2024-01-01T04:30", "2024-01-02T04:30"]);
}

#[test]
fn six_fields_start_with_the_second() {
    assert_eq!(
        ticks("10,40 0 4 * * *", "2024-01-01T04:00:10Z", 2),
        ["2024-01-01T04:00:40Z", "2024-01-02T04:00:10Z"]
    );
}

#[test]
fn nicknames_mean_the_patterns_they_stand_for() {
    for (nickname, pattern) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ] {
        let start = "2024-02-03T04:05:06Z";
        assert_eq!(ticks(nickname, start, 5), ticks(pattern, start, 5), "{nickname}");
    }
}

#[test]
fn intervals_are_aligned_to_1970_so_that_servers_agree_without_a_common_start() {
    assert_eq!(ticks("10m", "2024-01-01T00:03:00Z", 2), ["2024-01-01T00:10", "2024-01-01T00:20"]);
    assert_eq!(ticks("7h", "1970-01-01T00:00:00Z", 2), ["1970-01-01T07:00", "1970-01-01T14:00"]);
    for text in ["10ms", "90s", "7h", "1h 30m", "1 day 2 hours", "366days"] {
        let schedule = schedule(text);
        let tick = schedule.next_after(at("2024-05-06T07:08:09.123456Z")).unwrap();
        let gap = schedule.shortest_gap();
        assert_eq!(u128::try_from(tick.as_micros()).unwrap() % gap.as_micros(), 0, "{text}");
        assert_eq!(schedule.next_after(tick), Some(tick + gap), "{text}");
    }
}

#[test]
fn lists_ranges_and_steps_combine() {
    assert_eq!(
        ticks("0,20-22,50-59/5 12 * * *", "2024-01-01T00:00:00Z", 6),
        [
            "2024-01-01T12:00",
            "2024-01-01T12:20",
            "2024-01-01T12:21",
            "2024-01-01T12:22",
            "2024-01-01T12:50",
            "2024-01-01T12:55"
        ]
    );
}

#[test]
fn names_of_months_and_weekdays_are_read_in_any_case() {
    assert_eq!(
        days("0 0 * jan-feb MON", "2024-01-25T00:00:00Z", 3),
        ["2024-01-29", "2024-02-05", "2024-02-12"]
    );
    assert_eq!(
        days("0 0 * * fri-sun", "2024-01-01T00:00:00Z", 4),
        ["2024-01-05", "2024-01-06", "2024-01-07", "2024-01-12"]
    );
}

#[test]
fn sunday_is_both_0_and_7() {
    for text in ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN"] {
        assert_eq!(days(text, "2024-01-01T00:00:00Z", 2), ["2024-01-07", "2024-01-14"], "{text}");
    }
    for text in ["0 0 * * 0L", "0 0 * * 7L", "0 0 * * sunl"] {
        assert_eq!(days(text, "2024-01-01T00:00:00Z", 2), ["2024-01-28", "2024-02-25"], "{text}");
    }
}

#[test]
fn day_or_weekday_is_enough_when_both_are_given() {
    assert_eq!(
        days("0 0 13 * FRI", "2024-09-05T00:00:00Z", 4),
        ["2024-09-06", "2024-09-13", "2024-09-20", "2024-09-27"]
    );
    assert_eq!(days("0 0 15 * MON", "2024-09-10T00:00:00Z", 3), ["2024-09-15", "2024-09-16", "2024-09-23"]);
}

#[test]
fn a_plus_asks_for_day_and_weekday() {
    assert_eq!(days("0 0 13 * +FRI", "2024-01-01T00:00:00Z", 3), ["2024-09-13", "2024-12-13", "2025-06-13"]);
}

#[test]
fn l_is_the_last_day_or_the_last_of_a_weekday() {
    assert_eq!(days("0 0 L * *", "2024-01-31T00:00:00Z", 3), ["2024-02-29", "2024-03-31", "2024-04-30"]);
    assert_eq!(days("0 0 * * 5L", "2024-01-01T00:00:00Z", 2), ["2024-01-26", "2024-02-23"]);
    assert_eq!(days("0 0 LW * *", "2024-03-01T00:00:00Z", 2), ["2024-03-29", "2024-04-30"]);
}

#[test]
fn w_is_the_weekday_nearest_to_a_day() {
    assert_eq!(days("0 0 15W * *", "2024-05-31T00:00:00Z", 3), ["2024-06-14", "2024-07-15", "2024-08-15"]);
    assert_eq!(days("0 0 1W 6 *", "2024-01-01T00:00:00Z", 1), ["2024-06-03"], "never in the month before");
}

#[test]
fn a_hash_is_the_nth_of_a_weekday() {
    assert_eq!(days("0 0 * * 2#2", "2024-01-01T00:00:00Z", 2), ["2024-01-09", "2024-02-13"]);
    assert_eq!(days("0 0 * * MON#5", "2024-01-01T00:00:00Z", 2), ["2024-01-29", "2024-04-29"]);
}

#[test]
fn the_leap_day_comes_every_four_years_but_not_in_2100() {
    assert_eq!(days("0 0 29 2 *", "2024-02-29T00:00:00Z", 1), ["2028-02-29"]);
    assert_eq!(days("0 0 29 2 *", "2096-02-29T00:00:00Z", 1), ["2104-02-29"]);
    assert_eq!(
        schedule("0 0 29 2 *").newest_at(at("2104-02-28T23:59:59Z")),
        Some(at("2096-02-29T00:00:00Z"))
    );
}

#[test]
fn a_year_ends_and_the_next_one_begins() {
    assert_eq!(ticks("* * * * * *", "2023-12-31T23:59:58Z", 2), ["2023-12-31T23:59:59Z", "2024-01-01T00:00"]);
    assert_eq!(days("0 0 31 12 *", "2023-12-31T00:00:00Z", 1), ["2024-12-31"]);
}

#[test]
fn the_31st_is_left_out_of_short_months() {
    assert_eq!(days("0 0 31 * *", "2024-01-31T00:00:00Z", 3), ["2024-03-31", "2024-05-31", "2024-07-31"]);
}

#[test]
fn a_tick_is_not_after_itself_but_is_the_newest_at_itself() {
    let hourly = schedule("0 * * * *");
    let one = at("2024-01-01T01:00:00Z");
    assert_eq!(hourly.next_after(one), Some(at("2024-01-01T02:00:00Z")));
    assert_eq!(hourly.newest_at(one), Some(one));
}

#[test]
fn microseconds_decide_which_side_of_a_tick_an_instant_is_on() {
    for text in ["0 * * * *", "1h"] {
        let hourly = schedule(text);
        let one = at("2024-01-01T01:00:00Z");
        assert_eq!(hourly.next_after(at("2024-01-01T00:59:59.999999Z")), Some(one), "{text}");
        assert_eq!(
            hourly.newest_at(at("2024-01-01T00:59:59.999999Z")),
            Some(at("2024-01-01T00:00:00Z")),
            "{text}"
        );
        assert_eq!(
            hourly.next_after(at("2024-01-01T01:00:00.000001Z")),
            Some(at("2024-01-01T02:00:00Z")),
            "{text}"
        );
        assert_eq!(hourly.newest_at(at("2024-01-01T01:00:00.000001Z")), Some(one), "{text}");
    }
}

#[test]
fn instants_before_1970_are_instants_like_others() {
    for text in ["0 * * * *", "1h"] {
        let hourly = schedule(text);
        let instant = at("1969-07-20T20:17:40.5Z");
        assert_eq!(hourly.next_after(instant), Some(at("1969-07-20T21:00:00Z")), "{text}");
        assert_eq!(hourly.newest_at(instant), Some(at("1969-07-20T20:00:00Z")), "{text}");
    }
}

#[test]
fn the_newest_tick_of_a_rare_schedule_is_found_decades_back() {
    let leap_mondays = schedule("0 0 29 2 +MON");
    assert_eq!(leap_mondays.newest_at(at("2044-02-28T23:59:59Z")), Some(at("2016-02-29T00:00:00Z")));
    assert_eq!(leap_mondays.newest_at(at("2112-02-28T23:59:59Z")), Some(at("2072-02-29T00:00:00Z")));
}

#[test]
fn the_newest_tick_of_a_burst_long_ago_is_its_last() {
    let new_year = schedule("* * * 1 1 *");
    assert_eq!(new_year.newest_at(at("2024-12-31T23:59:59Z")), Some(at("2024-01-01T23:59:59Z")));
}

#[test]
fn ticks_end_with_the_calendar() {
    let daily = schedule("@daily");
    assert_eq!(daily.next_after(at("2299-12-31T00:00:00Z")), None);
    assert_eq!(daily.newest_at(at("2300-06-01T00:00:00Z")), Some(at("2299-12-31T00:00:00Z")));
    assert_eq!(daily.next_after(at("1850-01-01T00:00:00Z")), Some(at("1900-01-01T00:00:00Z")));
    assert_eq!(daily.newest_at(at("1899-12-31T00:00:00Z")), None);
}

#[test]
fn the_shortest_gap_is_that_between_the_closest_ticks() {
    for (text, gap) in
        [("0 9,10,18 * * *", 3600), ("*/7 * * * *", 4 * 60), ("0 0 1 * *", 28 * 86400), ("90s", 90)]
    {
        assert_eq!(schedule(text).shortest_gap(), Duration::from_secs(gap), "{text}");
    }
}

#[test]
fn a_schedule_is_shown_as_it_was_written_with_its_zone() {
    assert_eq!(schedule(" 0 3 * * * ").to_string(), "0 3 * * * UTC");
    assert_eq!(schedule("31days").to_string(), "every 31days");
    assert_eq!(Schedule::parse("@daily", Some("Asia/Tokyo")).unwrap().to_string(), "@daily Asia/Tokyo");
}

#[test]
fn an_override_keeps_the_zone_and_an_interval_has_none() {
    let berlin = Schedule::parse("0 3 * * *", Some("Europe/Berlin")).unwrap();
    assert_eq!(berlin.overridden("@daily").unwrap().to_string(), "@daily Europe/Berlin");
    assert_eq!(berlin.overridden("10m").unwrap().to_string(), "every 10m");
    assert_eq!(schedule("10m").overridden("0 4 * * *").unwrap().to_string(), "0 4 * * * UTC");
    let error = berlin.overridden("0 25 * * *").unwrap_err();
    assert_eq!(error.to_string(), "invalid `every` \"0 25 * * *\": hour 25 is out of range 0–23");
}

#[test]
fn local_time_of_a_tick_is_shown_in_the_zone_of_its_schedule() {
    let tick: Timestamp = "2026-07-01T01:00:00Z".parse().unwrap();
    let berlin = Schedule::parse("0 3 * * *", Some("Europe/Berlin")).unwrap();
    assert_eq!(berlin.local_time(tick).as_deref(), Some("2026-07-01T03:00:00+02:00[Europe/Berlin]"));
    for in_utc in [
        Schedule::parse("0 3 * * *", None),
        Schedule::parse("0 3 * * *", Some("UTC")),
        Schedule::parse("10m", None),
    ] {
        assert_eq!(in_utc.unwrap().local_time(tick), None);
    }
}
