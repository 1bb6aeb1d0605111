//! Actions that are clicked in the browser, and their effect in the store.

use std::collections::BTreeMap;
use std::time::Duration;

use jobs::fleet::ActionKind;
use jobs::history::{RunOutcome, Trigger};
use support::postgres_server::PostgresServer;
use support::redis_server::RedisServer;
use tokio::time::{sleep, timeout};

use super::browser::Browser;
use super::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn every_action_that_is_clicked_takes_effect_on_redis() {
    let redis = RedisServer::start();
    every_action_takes_effect(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_that_is_clicked_takes_effect_on_postgresql() {
    every_action_takes_effect(&PostgresServer::shared().url()).await;
}

async fn every_action_takes_effect(url: &str) {
    let site = Site::start(url, "clicked").await;
    let browser = Browser::start();
    run_now(&site, &browser).await;
    cancel(&site, &browser).await;
    pause_and_resume(&site, &browser).await;
    unlock(&site, &browser).await;
    pause_and_resume_all(&site, &browser).await;
    let audit = site.office.audit().await.unwrap();
    let done = audit.iter().rev().map(|action| (&*action.by, action.what, action.key.as_deref()));
    let expected = [
        (ActionKind::Run, Some("quick")),
        (ActionKind::Run, Some("endless")),
        (ActionKind::Cancel, Some("endless")),
        (ActionKind::Pause, Some("ticking")),
        (ActionKind::Resume, Some("ticking")),
        (ActionKind::Unlock, Some("payment:7")),
        (ActionKind::Pause, Some("quick")),
        (ActionKind::Pause, None),
        (ActionKind::Resume, None),
    ];
    assert_eq!(done.collect::<Vec<_>>(), expected.map(|(kind, key)| ("anna", kind, key)));
    assert_eq!(browser.errors(), Vec::<String>::new());
    drop(browser);
    site.stop().await;
}

/// Clicks on the button of an action, and on that of its confirmation.
fn confirm(browser: &Browser, action: &str) {
    browser.click(&format!("main a.action.{action}"));
    browser.wait_until("document.querySelector('dialog[open]')");
    browser.click(&format!("dialog button.action.{action}"));
}

async fn run_now(site: &Site, browser: &Browser) {
    browser.open(&site.url("job?key=quick"));
    confirm(browser, "run");
    browser.wait_for_text("and succeeded.");
    let history = site.office.history("quick").await.unwrap();
    let run = &history.runs[0];
    assert_eq!(
        (run.outcome, run.trigger, run.by.as_deref()),
        (RunOutcome::Succeeded, Trigger::Manual, Some("anna"))
    );
}

async fn cancel(site: &Site, browser: &Browser) {
    browser.open(&site.url("job?key=endless"));
    confirm(browser, "run");
    browser.wait_for_text("Running on worker");
    confirm(browser, "cancel");
    browser.wait_for_text("has ended: cancelled.");
    let history = site.office.history("endless").await.unwrap();
    assert_eq!(history.current, None);
    assert_eq!(
        (history.runs[0].outcome, history.runs[0].stopped_by.as_deref()),
        (RunOutcome::Cancelled, Some("anna"))
    );
}

async fn pause_and_resume(site: &Site, browser: &Browser) {
    browser.open(&site.url("job?key=ticking"));
    browser.click("main a.action.pause");
    browser.type_into("dialog input[name=reason]", "the <supplier> is down");
    browser.type_into("dialog input[name=lasting]", "2h");
    browser.click("dialog button.action.pause");
    browser.wait_for_text("“the <supplier> is down”");
    let pause = site.office.history("ticking").await.unwrap().pause.expect("a pause");
    assert_eq!((&*pause.by, pause.reason.as_deref()), ("anna", Some("the <supplier> is down")));
    assert_eq!(pause.until.map(|until| (until - pause.since).as_secs()), Some(7200));
    confirm(browser, "resume");
    browser.wait_for_text("ticking is resumed.");
    assert_eq!(site.office.history("ticking").await.unwrap().pause, None);
}

async fn unlock(site: &Site, browser: &Browser) {
    let guard = site.worker.lock("payment:7").ttl("3s").acquire().await.unwrap();
    sleep(Duration::from_millis(100)).await;
    browser.open(&site.url("locks"));
    confirm(browser, "unlock");
    browser.wait_for_text("The lock of payment:7 is broken.");
    timeout(Duration::from_secs(10), guard.lost()).await.expect("the holder learns of it");
    assert!(!site.office.locks().await.unwrap().iter().any(|lock| lock.key == "payment:7"));
}

async fn pause_and_resume_all(site: &Site, browser: &Browser) {
    // A pause of its own outlasts that of all jobs.
    site.worker.by("anna").pause("quick").reason("its own").await.unwrap();
    let paused = async || {
        let overview = site.office.overview().await.unwrap();
        let jobs = overview.jobs.into_iter().map(|job| (job.key, job.pause.map(|pause| pause.all)));
        (overview.pause, jobs.collect::<BTreeMap<_, _>>())
    };
    browser.open(&site.url("overview"));
    browser.click("#fleet-actions a.action.pause");
    browser.type_into("dialog input[name=reason]", "moving to <new> machines");
    browser.type_into("dialog input[name=lasting]", "90m");
    browser.click("dialog button.action.pause");
    browser.wait_for_text("All jobs are paused.");
    browser.wait_for_text("“moving to <new> machines”");
    let (pause, jobs) = paused().await;
    let pause = pause.expect("a pause of all");
    assert_eq!((&*pause.by, pause.reason.as_deref()), ("anna", Some("moving to <new> machines")));
    assert_eq!(pause.until.map(|until| (until - pause.since).as_secs()), Some(5400));
    assert!(jobs.len() >= 4, "{jobs:?}");
    for (key, is_for_all) in &jobs {
        assert_eq!(*is_for_all, Some(key != "quick"), "{key}");
    }
    browser.click("#fleet-actions a.action.resume");
    browser.click("dialog button.action.resume");
    browser.wait_for_text("jobs are resumed.");
    browser.wait_until("!document.body.innerText.includes('All jobs are paused.')");
    let (pause, jobs) = paused().await;
    assert_eq!(pause, None);
    for (key, is_for_all) in &jobs {
        assert_eq!(*is_for_all, (key == "quick").then_some(false), "{key}");
    }
}
