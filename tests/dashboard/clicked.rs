//! Actions that are clicked in the browser, and their effect in the store.

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
    let audit = site.office.audit().await.unwrap();
    let done: Vec<_> = audit.iter().rev().map(|action| (&*action.by, action.what)).collect();
    let kinds = [
        ActionKind::Run,
        ActionKind::Run,
        ActionKind::Cancel,
        ActionKind::Pause,
        ActionKind::Resume,
        ActionKind::Unlock,
    ];
    assert_eq!(done, kinds.map(|kind| ("anna", kind)));
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
