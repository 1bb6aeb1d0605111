//! One mistake is reported once: rules that involve a value which could not be read stay silent.

use singleton_jobs_policy::Settings;

fn arguments_at_fault(settings: &Settings<'_>, unread: &[&'static str]) -> Vec<&'static str> {
    let problems = settings.policy_without(unread).err().unwrap_or_default();
    problems.iter().map(|problem| problem.argument).collect()
}

#[test]
fn misspelt_choice_causes_no_errors_in_dependent_arguments() {
    let settings = Settings {
        key: "import-products",
        every: Some("@hourly"),
        on_crash: Some("rerty"),
        takeovers: Some(2),
        ..Settings::default()
    };
    assert_eq!(arguments_at_fault(&settings, &[]), ["on_crash"]);
}

#[test]
fn timeout_is_not_compared_with_a_ttl_that_could_not_be_read() {
    let settings = Settings {
        key: "import-products",
        ttl: Some("10"),
        timeout: Some("5m"),
        keep_alive: Some(false),
        ..Settings::default()
    };
    assert_eq!(arguments_at_fault(&settings, &[]), ["ttl"]);
}

#[test]
fn unreadable_argument_is_not_reported_as_missing() {
    let settings = Settings {
        tz: Some("Europe/Berlin"),
        retry_delay: Some("1s"),
        ttl: Some("0s"),
        ..Settings::default()
    };
    assert_eq!(arguments_at_fault(&settings, &[]), ["key", "tz", "retry_delay", "ttl"]);
    assert_eq!(arguments_at_fault(&settings, &["key", "every", "retries"]), ["ttl"]);
}
