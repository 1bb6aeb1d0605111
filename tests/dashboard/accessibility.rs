//! No violation by axe-core on any page, in both themes.

use std::path::Path;

use serde_json::Value;

use super::browser::Browser;
use super::shown::PAGES;
use super::site::{ODD_KEY, Site};

fn axe() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/axe/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run ./tests/run, which installs it from tests/dashboard/package-lock.json",
            path.display()
        )
    })
}

/// What axe-core finds on the page that is open.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.evaluate(&format!("{axe}; return true"));
    let found = browser.evaluate_later(
        "const done = arguments[0];
         axe.run(document, { resultTypes: ['violations'] }).then((result) => done(result.violations), (error) => done([String(error)]));",
    );
    let describe = |violation: &Value| {
        format!("{}: {}: {}", violation["id"], violation["help"], violation["nodes"][0]["html"])
    };
    found.as_array().expect("violations").iter().map(describe).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_violates_a_rule_of_axe_in_either_theme() {
    let site = Site::start("memory://axe", "axe").await;
    let _failed = site.worker.run_now(ODD_KEY).await.unwrap();
    site.office.by("anna").pause("quick").reason("stock-taking").await.unwrap();
    let worker = site.worker.clone();
    tokio::spawn(async move { worker.run_now("endless").await });
    site.office.by("anna").pause_all().reason("moving").await.unwrap();
    let _guard = site.worker.lock("payment:7").ttl("60s").acquire().await.unwrap();
    let (browser, axe) = (Browser::start(), axe());
    let mut found = Vec::new();
    let odd = format!("job?key={ODD_KEY}");
    let more = [
        "overview?state=paused&sort=slowest",
        "timeline?range=minutes",
        "timeline?range=week",
        "job?key=endless",
        &odd,
        "job?key=none",
        "confirm?action=pause&key=quick",
        "confirm?action=pause&all=true",
        "confirm?action=run&all=true",
    ];
    for page in PAGES.map(|(page, _)| page).into_iter().chain(more) {
        for (scheme, width) in [("light", 1280), ("dark", 390)] {
            browser.look_like(scheme, width, 900);
            browser.open(&site.url(page));
            let violations = violations(&browser, &axe);
            found.extend(violations.into_iter().map(|text| format!("{page} {scheme} {width}: {text}")));
            let wide = browser.evaluate("return document.documentElement.scrollWidth - innerWidth");
            if wide.as_f64().unwrap_or(0.0) > 0.0 {
                found.push(format!("{page} {scheme} {width}: {wide} pixels too wide"));
            }
        }
    }
    // A dialog, too.
    browser.open(&site.url("job?key=ticking"));
    browser.click("main a.action.pause");
    browser.wait_until("document.querySelector('dialog[open]')");
    found.extend(violations(&browser, &axe).into_iter().map(|text| format!("dialog: {text}")));
    assert!(found.is_empty(), "{}", found.join("\n"));

    // The control: faults that it must find.
    browser.open(&site.url("overview"));
    browser.evaluate("document.querySelector('main').innerHTML = '<img src=icon.svg><input>'");
    let control = violations(&browser, &axe);
    assert!(control.len() >= 2, "{control:?}");
    drop(browser);
    site.stop().await;
}
