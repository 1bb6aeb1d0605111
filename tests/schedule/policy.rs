//! The rules of a job: what is said when one is broken, and of which argument.

use std::time::Duration;

use jobs::__private::Settings;
use jobs::schedule::{Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule};

/// A job with a schedule and nothing wrong.
fn hourly() -> Settings<'static> {
    Settings { key: "import-products", every: Some("0 * * * *"), ..Settings::default() }
}

/// A job that runs by hand, with nothing wrong.
fn by_hand() -> Settings<'static> {
    Settings { key: "import-products", ..Settings::default() }
}

fn problems(settings: Settings<'_>) -> Vec<(&'static str, String)> {
    let problems = settings.policy().map_or_else(|problems| problems, |_| Vec::new());
    problems.into_iter().map(|Problem { argument, message }| (argument, message)).collect()
}

#[track_caller]
fn assert_only(settings: Settings<'_>, argument: &'static str, message: &str) {
    assert_eq!(problems(settings), [(argument, message.to_owned())]);
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let policy = by_hand().policy().unwrap();
    assert_eq!(policy.key, "import-products");
    assert_eq!(policy.ttl, Duration::from_secs(60));
    assert!(policy.schedule.is_none());
    assert_eq!(policy.timeout, None);
    assert_eq!((policy.retries, policy.retry_delay), (0, Duration::from_secs(5)));
    assert_eq!(policy.overlap, Overlap::Skip);
    assert_eq!(policy.missed, Missed::Skip);
    assert_eq!((policy.on_crash, policy.takeovers), (OnCrash::Skip, 1));
    assert_eq!((policy.grace, policy.jitter), (None, None));
    assert!(policy.keep_alive);
    assert_eq!(policy.on_lost, OnLost::Cancel);
    assert_eq!(hourly().policy().unwrap().schedule.unwrap().to_string(), "0 * * * * UTC");
}

#[test]
fn job_built_at_run_time_has_the_same_defaults() {
    assert_eq!(format!("{:?}", by_hand().policy().unwrap()), format!("{:?}", Policy::new("import-products")));
}

#[test]
fn every_argument_reaches_the_policy() {
    let policy = Settings {
        key: "a/b:c.d_e-F9",
        ttl: Some("2m"),
        every: Some("0 3 * * *"),
        tz: Some("Europe/Berlin"),
        timeout: Some("1h 30m"),
        retries: Some(3),
        retry_delay: Some("250ms"),
        overlap: Some("queue"),
        missed: Some("run_once"),
        on_crash: Some("retry"),
        takeovers: Some(2),
        grace: Some("10m"),
        jitter: Some("30s"),
        keep_alive: Some(true),
        on_lost: Some("cancel"),
        pause_after: Some(5),
    }
    .policy()
    .unwrap();
    assert_eq!(policy.key, "a/b:c.d_e-F9");
    assert_eq!(policy.ttl, Duration::from_secs(120));
    assert_eq!(policy.schedule.unwrap().to_string(), "0 3 * * * Europe/Berlin");
    assert_eq!(policy.timeout, Some(Duration::from_secs(5400)));
    assert_eq!((policy.retries, policy.retry_delay), (3, Duration::from_millis(250)));
    assert_eq!((policy.overlap, policy.missed), (Overlap::Queue, Missed::RunOnce));
    assert_eq!((policy.on_crash, policy.takeovers), (OnCrash::Retry, 2));
    assert_eq!(policy.grace, Some(Duration::from_secs(600)));
    assert_eq!(policy.jitter, Some(Duration::from_secs(30)));
    let other = Settings { keep_alive: Some(false), on_lost: Some("continue"), ..hourly() }.policy().unwrap();
    assert_eq!((other.keep_alive, other.on_lost), (false, OnLost::Continue));
}

#[test]
fn takeovers_are_allowed_only_with_retry() {
    let skips = hourly().policy().unwrap();
    let retries = Settings { on_crash: Some("retry"), ..hourly() }.policy().unwrap();
    assert_eq!((skips.allowed_takeovers(), retries.allowed_takeovers()), (0, 1));
}

#[test]
fn a_key_is_1_to_128_characters_of_a_known_set() {
    let longest = "k".repeat(128);
    assert_eq!(problems(Settings { key: &longest, ..by_hand() }), []);
    let too_long = "k".repeat(129);
    let message = format!("invalid `key` \"{too_long}\": it has 129 characters, 128 are allowed");
    assert_only(Settings { key: &too_long, ..by_hand() }, "key", &message);
    assert_only(
        Settings { key: "", ..by_hand() },
        "key",
        "invalid `key` \"\": it is empty; write one, as in \"import-products\"",
    );
    for (key, bad) in [("a b", "' '"), ("a{b}", "'{'"), ("größe", "'ö'"), ("a+b", "'+'")] {
        let message = format!(
            "invalid `key` \"{key}\": {bad} is not allowed; use letters, digits and `.` `_` `:` `/` `-`"
        );
        assert_only(Settings { key, ..by_hand() }, "key", &message);
    }
}

#[test]
fn a_duration_has_a_unit() {
    let why = "expected a number with a unit, as in \"60s\" or \"5m\"";
    let invalid = |argument| format!("invalid `{argument}` \"60\": {why}");
    let text = Some("60");
    assert_only(Settings { ttl: text, ..hourly() }, "ttl", &invalid("ttl"));
    assert_only(Settings { timeout: text, ..hourly() }, "timeout", &invalid("timeout"));
    assert_only(Settings { grace: text, ..hourly() }, "grace", &invalid("grace"));
    assert_only(Settings { jitter: text, ..hourly() }, "jitter", &invalid("jitter"));
    let delay = Settings { retries: Some(1), retry_delay: text, ..hourly() };
    assert_only(delay, "retry_delay", &invalid("retry_delay"));
}

#[test]
fn a_duration_is_whole_milliseconds() {
    let message = "invalid `ttl` \"1500us\": expected whole milliseconds, as in \"250ms\" or \"60s\"";
    assert_only(Settings { ttl: Some("1500us"), ..hourly() }, "ttl", message);
}

#[test]
fn a_choice_is_one_of_two() {
    let text = Some("maybe");
    let invalid = |argument, choices| format!("invalid `{argument}` \"maybe\": expected {choices}");
    assert_only(
        Settings { overlap: text, ..hourly() },
        "overlap",
        &invalid("overlap", "\"skip\" or \"queue\""),
    );
    assert_only(
        Settings { missed: text, ..hourly() },
        "missed",
        &invalid("missed", "\"skip\" or \"run_once\""),
    );
    assert_only(
        Settings { on_crash: text, ..hourly() },
        "on_crash",
        &invalid("on_crash", "\"skip\" or \"retry\""),
    );
    assert_only(
        Settings { on_lost: text, ..hourly() },
        "on_lost",
        &invalid("on_lost", "\"cancel\" or \"continue\""),
    );
}

#[test]
fn a_bad_schedule_is_put_on_every_and_a_bad_zone_on_tz() {
    let message = "invalid `every` \"0 25 * * *\": hour 25 is out of range 0–23";
    assert_only(Settings { every: Some("0 25 * * *"), ..hourly() }, "every", message);
    let message = "invalid `tz` \"Berlin\": expected an IANA time zone, as in \"Europe/Berlin\"";
    assert_only(Settings { tz: Some("Berlin"), ..hourly() }, "tz", message);
    let message = "`tz` means nothing with the interval \"10m\"; remove it or use cron";
    assert_only(Settings { every: Some("10m"), tz: Some("Europe/Berlin"), ..hourly() }, "tz", message);
}

#[test]
fn a_ttl_is_between_a_second_and_a_week() {
    let ttl = |text| Settings { ttl: Some(text), ..hourly() };
    assert_only(ttl("999ms"), "ttl", "`ttl` \"999ms\" is too short; at least \"1s\"");
    assert_only(ttl("169h"), "ttl", "`ttl` \"7days 1h\" is too long; at most \"7days\"");
    assert_eq!(problems(ttl("1s")), []);
    assert_eq!(problems(ttl("7days")), []);
}

#[test]
fn a_length_beyond_a_year_is_refused() {
    let long = Some("400days");
    let message = |argument: &str| format!("`{argument}` is too long; at most \"366days\"");
    assert_only(Settings { timeout: long, ..hourly() }, "timeout", &message("timeout"));
    assert_only(Settings { grace: long, ..hourly() }, "grace", &message("grace"));
}

#[test]
fn a_length_of_zero_is_refused() {
    let zero = Some("0s");
    assert_only(Settings { timeout: zero, ..hourly() }, "timeout", "`timeout` must be longer than zero");
    assert_only(Settings { grace: zero, ..hourly() }, "grace", "`grace` must be longer than zero");
    assert_only(Settings { jitter: zero, ..hourly() }, "jitter", "`jitter` must be longer than zero");
}

#[test]
fn a_timeout_fits_into_a_lease_that_is_never_extended() {
    let settings = Settings { timeout: Some("61s"), keep_alive: Some(false), ..hourly() };
    let message = "`timeout` \"1m 1s\" is longer than 54s, after which a run with `ttl` \"1m\" and \
                   `keep_alive = false` ends in any case; shorten it or lengthen `ttl`";
    assert_only(settings, "timeout", message);
    assert_eq!(problems(Settings { timeout: Some("54s"), ..settings }), []);
    assert_eq!(problems(Settings { keep_alive: None, ..settings }), []);
}

#[test]
fn retries_are_at_most_100() {
    let retries = |count| Settings { retries: Some(count), ..hourly() };
    assert_only(retries(101), "retries", "`retries` 101 is too many; at most 100");
    assert_eq!(problems(retries(100)), []);
}

#[test]
fn retrying_after_a_crash_takes_at_least_one_takeover() {
    let settings = Settings { on_crash: Some("retry"), takeovers: Some(0), ..hourly() };
    let message = "`takeovers` must be at least 1; leave out `on_crash = \"retry\"` for none";
    assert_only(settings, "takeovers", message);
}

#[test]
fn policy_cannot_combine_continuing_without_a_lease_with_takeovers() {
    let settings = Settings { on_crash: Some("retry"), on_lost: Some("continue"), ..hourly() };
    let message = "`on_lost = \"continue\"` cannot be combined with `on_crash = \"retry\"`: the run that goes on \
                   and the server that takes its tick over would work at the same time";
    assert_only(settings, "on_lost", message);
}

#[test]
fn jitter_is_shorter_than_the_gap_between_ticks() {
    let jitter = |text| Settings { jitter: Some(text), ..hourly() };
    assert_only(jitter("1h"), "jitter", "`jitter` \"1h\" must be shorter than the gap between ticks, 1h");
    assert_eq!(problems(jitter("59m")), []);
}

#[test]
fn arguments_about_ticks_need_a_schedule() {
    let needs = |argument| format!("`{argument}` needs a schedule; add `every = \"0 * * * *\"`");
    assert_only(Settings { tz: Some("UTC"), ..by_hand() }, "tz", &needs("tz"));
    assert_only(Settings { jitter: Some("1s"), ..by_hand() }, "jitter", &needs("jitter"));
    assert_only(Settings { grace: Some("1s"), ..by_hand() }, "grace", &needs("grace"));
    assert_only(Settings { missed: Some("run_once"), ..by_hand() }, "missed", &needs("missed"));
    assert_only(Settings { overlap: Some("queue"), ..by_hand() }, "overlap", &needs("overlap"));
    assert_only(Settings { on_crash: Some("retry"), ..by_hand() }, "on_crash", &needs("on_crash"));
}

#[test]
fn takeovers_need_retry() {
    for on_crash in [None, Some("skip")] {
        let settings = Settings { on_crash, takeovers: Some(2), ..hourly() };
        assert_only(settings, "takeovers", "`takeovers` needs `on_crash = \"retry\"`");
    }
}

#[test]
fn a_retry_delay_needs_retries() {
    for retries in [None, Some(0)] {
        let settings = Settings { retries, retry_delay: Some("1s"), ..hourly() };
        assert_only(settings, "retry_delay", "`retry_delay` needs `retries`; add `retries = 3`");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let settings =
        Settings { key: "a b", ttl: Some("60"), every: Some("0 25 * * *"), retries: Some(101), ..hourly() };
    let arguments: Vec<_> = problems(settings).into_iter().map(|(argument, _)| argument).collect();
    assert_eq!(arguments, ["key", "ttl", "every", "retries"]);
}

#[test]
fn unreadable_value_causes_one_error_only() {
    let arguments =
        |settings| problems(settings).into_iter().map(|(argument, _)| argument).collect::<Vec<_>>();
    let ttl = Settings { ttl: Some("5 minuets"), timeout: Some("2m"), keep_alive: Some(false), ..hourly() };
    assert_eq!(arguments(ttl), ["ttl"]);
    let on_crash = Settings { on_crash: Some("retyr"), takeovers: Some(2), ..hourly() };
    assert_eq!(arguments(on_crash), ["on_crash"]);
    let every = Settings { every: Some("hourly"), jitter: Some("1s"), grace: Some("1s"), ..hourly() };
    assert_eq!(arguments(every), ["every"]);
}

#[test]
fn a_job_built_at_run_time_obeys_the_same_rules() {
    let mut policy = Policy::new("a b");
    policy.ttl = Duration::from_millis(10);
    policy.schedule = Some(Schedule::parse("10s", None).unwrap());
    policy.jitter = Some(Duration::from_secs(10));
    let arguments: Vec<_> = policy.problems().iter().map(|problem| problem.argument).collect();
    assert_eq!(arguments, ["key", "ttl", "jitter"]);
    assert_eq!(policy.problems()[1].to_string(), "`ttl` \"10ms\" is too short; at least \"1s\"");
}
