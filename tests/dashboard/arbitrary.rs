//! Arbitrary input to every parameter: never a panic, and never markup that is not escaped.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use super::site::{Site, own_page, request};

const PATHS: [&str; 16] = [
    "overview",
    "job",
    "timeline",
    "servers",
    "locks",
    "audit",
    "confirm",
    "events",
    "api/v1/jobs",
    "api/v1/job",
    "api/v1/timeline",
    "api/v1/servers",
    "api/v1/locks",
    "api/v1/audit",
    "api/v1/overview",
    "",
];
const NAMES: [&str; 15] = [
    "q", "state", "sort", "page", "key", "all", "outcome", "trigger", "server", "range", "seen", "action",
    "reason", "lasting", "x",
];

/// Marks that must never arrive as markup.
const PROBE: &str = "<probe'\"&>";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just(PROBE.to_owned()),
        Just("quick".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("-1".to_owned()),
        Just("problems".to_owned()),
        Just("pause".to_owned()),
        Just("true".to_owned()),
        any::<String>().prop_map(|text| format!("{PROBE}{text}")),
        "[\\PC<>&\"'\u{0}-\u{1f}]{0,200}",
    ]
}

fn parameters() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    proptest::collection::vec((proptest::sample::select(&NAMES[..]), text()), 0..5)
}

fn encoded(parameters: &[(&str, String)], raw: bool) -> String {
    let hex = |byte: u8| format!("%{byte:02X}");
    let value = |text: &str| -> String {
        // As it is, as far as a request line can carry it; or percent-encoded.
        if raw {
            text.chars().filter(|c| c.is_ascii_graphic() && !"#<>\"".contains(*c)).collect()
        } else {
            text.bytes().map(hex).collect()
        }
    };
    parameters.iter().map(|(name, text)| format!("{name}={}", value(text))).collect::<Vec<_>>().join("&")
}

fn check(path: &str, answer: &super::site::Answer) -> Result<(), TestCaseError> {
    prop_assert!((200..500).contains(&answer.status) || answer.status == 503, "{path}: {}", answer.text);
    if answer.text.contains("content-type: application/json") {
        let content = serde_json::from_str::<serde_json::Value>(answer.body());
        prop_assert!(content.is_ok_and(|content| content["format"] == 1), "{path}: {}", answer.text);
        return Ok(());
    }
    prop_assert!(!answer.body().contains("<probe"), "{path}: not escaped: {}", answer.text);
    // Values of attributes are quoted, and a quote in them is escaped. The one that ends a value is no part of the probe.
    prop_assert!(!answer.body().contains("probe'\"&"), "{path}: {}", answer.text);
    Ok(())
}

#[test]
fn arbitrary_parameters_never_panic_and_are_always_escaped() {
    let runtime = Runtime::new().unwrap();
    let site = runtime.block_on(Site::start("memory://arbitrary", "arbitrary"));
    let cases =
        std::env::var("JOBS_TEST_CASES").ok().and_then(|factor| factor.parse::<u32>().ok()).unwrap_or(1);
    let mut runner =
        TestRunner::new(Config { cases: 200 * cases, failure_persistence: None, ..Config::default() });
    let input = (proptest::sample::select(&PATHS[..]), parameters(), any::<bool>());
    let result = runner.run(&input, |(path, parameters, raw)| {
        let query = encoded(&parameters, raw);
        if path == "events" && parameters.iter().any(|(name, _)| *name == "page") {
            return Ok(()); // endless
        }
        let answer =
            runtime.block_on(request(&site.address, "GET", &format!("/jobs/{path}?{query}"), &[], ""));
        check(path, &answer)?;
        // The same as a form. A run that is requested would be waited for.
        if !query.contains("run") && !query.contains("%72%75%6E") {
            let head = own_page(&site.address);
            for path in ["/jobs/action", "/jobs/api/v1/action"] {
                let answer = runtime.block_on(request(&site.address, "POST", path, &head, &query));
                check(path, &answer)?;
            }
        }
        Ok(())
    });
    result.unwrap();
    // The control: the probe arrives, and is shown as text.
    let shown = runtime.block_on(super::site::get(&site.address, "/jobs/overview?q=%3Cprobe%27%22%26%3E"));
    assert!(shown.text.contains("&lt;probe'&quot;&amp;&gt;"), "{}", shown.text);
    runtime.block_on(site.stop());
}
