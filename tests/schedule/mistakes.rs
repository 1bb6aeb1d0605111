//! What is said about a text that is not a schedule, and which argument it is said of.

use std::time::{Duration, Instant};

use jobs::schedule::Schedule;

#[track_caller]
fn assert_refused(text: &str, message: &str) {
    let error = Schedule::parse(text, None).unwrap_err();
    assert_eq!((error.argument(), error.to_string().as_str()), ("every", message));
}

/// Expects `invalid `every` "…": ` in front.
#[track_caller]
fn assert_invalid(text: &str, why: &str) {
    assert_refused(text, &format!("invalid `every` \"{text}\": {why}"));
}

#[test]
fn a_number_out_of_range_is_named_with_its_field() {
    assert_invalid("60 0 0 * * *", "second 60 is out of range 0–59");
    assert_invalid("60 * * * *", "minute 60 is out of range 0–59");
    assert_invalid("0 25 * * *", "hour 25 is out of range 0–23");
    assert_invalid("0 0 0 * *", "day 0 is out of range 1–31");
    assert_invalid("0 0 32 * *", "day 32 is out of range 1–31");
    assert_invalid("0 0 * 13 *", "month 13 is out of range 1–12");
    assert_invalid("0 0 * * 8", "weekday 8 is out of range 0–7");
}

#[test]
fn a_number_out_of_range_is_found_in_lists_ranges_and_steps() {
    assert_invalid("0 1,2,24 * * *", "hour 24 is out of range 0–23");
    assert_invalid("0 20-26 * * *", "hour 26 is out of range 0–23");
    assert_invalid("50-70/5 * * * *", "minute 70 is out of range 0–59");
    assert_invalid("0 0 * * 1#2,9#1", "weekday 9 is out of range 0–7");
}

#[test]
fn the_first_wrong_field_is_the_one_named() {
    assert_invalid("0 25 32 * 9", "hour 25 is out of range 0–23");
    assert_invalid("61 x * * *", "minute 61 is out of range 0–59");
}

#[test]
fn a_field_that_cannot_be_read_is_quoted() {
    assert_invalid("x * * * *", "\"x\" is not a valid minute field");
    assert_invalid("0 9-5 * * *", "\"9-5\" is not a valid hour field");
    assert_invalid("*/0 * * * *", "\"*/0\" is not a valid minute field");
    assert_invalid("0/15 * * * *", "\"0/15\" is not a valid minute field");
    assert_invalid("0 0 * * 1#6", "\"1#6\" is not a valid weekday field");
    assert_invalid("0 0 W * *", "\"W\" is not a valid day field");
    assert_invalid("0 0 * * 1-", "\"1-\" is not a valid weekday field");
    assert_invalid("99999999999 * * * *", "\"99999999999\" is not a valid minute field");
}

#[test]
fn an_empty_item_in_a_list_is_refused() {
    assert_invalid(", * * * *", "\",\" is not a valid minute field");
    assert_invalid("0 1, 2 * * *", "\"1,\" is not a valid minute field");
    assert_invalid("0 0 1,,2 * *", "\"1,,2\" is not a valid day field");
}

#[test]
fn name_is_refused_outside_its_own_field() {
    assert_invalid("0 0 * MON *", "\"MON\" is not a valid month field");
    assert_invalid("0 0 * * JAN", "\"JAN\" is not a valid weekday field");
    assert_invalid("JAN 0 * * *", "\"JAN\" is not a valid minute field");
    assert_invalid("0 0 * 1JAN *", "\"1JAN\" is not a valid month field");
    assert_invalid("0 0 * * MONDAY", "\"MONDAY\" is not a valid weekday field");
}

#[test]
fn a_last_weekday_needs_its_weekday() {
    assert_invalid("0 0 * * L", "\"L\" is not a valid weekday field");
}

#[test]
fn fields_are_counted() {
    assert_invalid("0 * * *", "expected 5 or 6 fields, found 4");
    assert_invalid("0 0 0 1 1 * 2024", "expected 5 or 6 fields, found 7");
}

#[test]
fn an_unknown_nickname_is_answered_with_the_known_ones() {
    for text in ["@reboot", "@every 5m", "@daily 5"] {
        assert_invalid(text, "expected one of @hourly, @daily, @weekly, @monthly, @yearly");
    }
}

#[test]
fn a_text_that_is_nothing_is_answered_with_the_three_forms() {
    for text in ["", "  ", "hourly", "60", "10 minuets", "-5m", "* *"] {
        assert_invalid(
            text,
            "expected cron with 5 or 6 fields as in \"0 * * * *\", a nickname as in \"@hourly\", or an interval as \
             in \"10m\"",
        );
    }
}

#[test]
fn an_interval_is_neither_too_short_nor_too_long() {
    for text in ["0s", "9ms"] {
        assert_invalid(text, "an interval is at least \"10ms\"");
    }
    assert_invalid("367days", "an interval is at most \"366days\"");
    assert!(Schedule::parse("10ms", None).is_ok() && Schedule::parse("366days", None).is_ok());
}

#[test]
fn a_schedule_that_never_fires_is_refused_quickly() {
    for text in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30 2 +1", "0 0 31W 2 *"] {
        let begin = Instant::now();
        assert_refused(text, &format!("`every` \"{text}\" never fires"));
        assert!(begin.elapsed() < Duration::from_secs(2), "{text} took {:?}", begin.elapsed());
    }
}

#[test]
fn an_unknown_zone_is_put_on_tz() {
    for zone in ["Europe/Berlim", "", "Etc/Unknown", "CEST", "+02:00"] {
        let error = Schedule::parse("0 0 * * *", Some(zone)).unwrap_err();
        let message = format!("invalid `tz` \"{zone}\": expected an IANA time zone, as in \"Europe/Berlin\"");
        assert_eq!((error.argument(), error.to_string()), ("tz", message));
    }
}

#[test]
fn a_zone_means_nothing_to_an_interval() {
    let error = Schedule::parse("10m", Some("Europe/Berlin")).unwrap_err();
    let message = "`tz` means nothing with the interval \"10m\"; remove it or use cron";
    assert_eq!((error.argument(), error.to_string().as_str()), ("tz", message));
}
