//! Live updates: pages change without a reload.

use std::collections::BTreeSet;
use std::time::Duration;

use super::browser::Browser;
use super::site::{Site, ZONED_KEY};
use jiff::tz::TimeZone;
use jobs::dashboard::Dashboard;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread")]
async fn page_follows_the_store_without_a_reload() {
    let site = Site::start("memory://live", "live").await;
    let browser = Browser::start();
    browser.open(&site.url("job?key=quick"));
    browser.wait_until("document.getElementById('live').dataset.state === 'on'");
    browser.evaluate("window.same = true");
    let _ran = site.worker.run_now("quick").await.unwrap();
    browser.wait_until("document.querySelectorAll('#history tbody tr').length === 1");
    site.office.by("ben").pause("quick").reason("stock-taking").await.unwrap();
    browser.wait_for_text("stock-taking");
    assert_eq!(browser.evaluate("return window.same"), true, "the page was not reloaded");

    browser.open(&site.url("overview"));
    browser.wait_until("document.getElementById('live').dataset.state === 'on'");
    browser.evaluate("window.same = true");
    let before = browser.evaluate("return document.getElementById('job-ticking').innerHTML");
    browser.wait_until(&format!("document.getElementById('job-ticking').innerHTML !== {before}"));
    // Another order of the jobs: a resumed one is no longer at the top.
    browser.wait_until("document.querySelector('.jobs li').id === 'job-quick'");
    site.office.resume("quick").await.unwrap();
    browser.wait_until("document.querySelector('.jobs li').id !== 'job-quick'");
    assert_eq!(browser.evaluate("return window.same"), true, "the page was not reloaded");
    assert_eq!(browser.errors(), Vec::<String>::new());
    drop(browser);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_zone_and_theme_follow_the_viewer() {
    let site = Site::start("memory://search", "live").await;
    let browser = Browser::start();
    browser.open(&site.url("overview"));
    browser.type_into("input[type=search]", "tick");
    browser.wait_until("document.querySelectorAll('.jobs li').length === 1");
    browser.wait_until("location.search === '?q=tick'");
    assert_eq!(browser.evaluate("return document.activeElement.value"), "tick");
    choose_zone(&browser, "browser");
    browser.wait_until("localStorage.getItem('jobs-zone') === 'browser'");
    browser.click("#theme");
    browser.click("#theme");
    browser.wait_until("document.documentElement.dataset.theme === 'dark'");
    browser.wait_until("getComputedStyle(document.body).backgroundColor === 'rgb(16, 20, 28)'");
    drop(browser);
    site.stop().await;
}

fn choose_zone(browser: &Browser, zone: &str) {
    browser.evaluate(&format!(
        "const zone = document.getElementById('zone'); zone.value = '{zone}'; zone.dispatchEvent(new Event('change'))"
    ));
}

/// The time of an instant in a zone, with its date if it differs from the other one's.
fn expected(instant: &str, other: &str, zone: &TimeZone) -> String {
    let [at, other] =
        [instant, other].map(|text| text.parse::<jiff::Timestamp>().unwrap().to_zoned(zone.clone()));
    let date = if at.date() == other.date() { "" } else { "%Y-%m-%d " };
    let time = if at.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    at.strftime(&format!("{date}{time}")).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_switch_reaches_the_sentences_about_ticks_and_the_load_map() {
    let site = Site::start("memory://zones", "live").await;
    let browser = Browser::start();
    browser.set_zone("America/New_York");
    // A date that differs from the tick's, in every zone.
    site.office.by("anna").pause(ZONED_KEY).reason("stock-taking").lasting("50h").await.unwrap();
    let zones = [("utc", "UTC"), ("job", "Asia/Kolkata"), ("browser", "America/New_York")];
    browser.open(&site.url(&format!("job?key={ZONED_KEY}")));
    browser.wait_until("document.querySelectorAll('#why time[data-near]').length > 3");
    let mut seen = BTreeSet::new();
    for (choice, name) in zones {
        choose_zone(&browser, choice);
        let zone = TimeZone::get(name).unwrap();
        let times = browser.evaluate(
            "return [...document.querySelectorAll('#why time[data-near]')].map((time) => [time.dateTime, time.dataset.near, time.textContent])",
        );
        for time in times.as_array().unwrap() {
            let [instant, near, shown] = [0, 1, 2].map(|part| time[part].as_str().unwrap());
            assert_eq!(shown, expected(instant, near, &zone), "{instant} in {name}");
        }
        let sentence = browser.evaluate(
            "return document.querySelector('#why li:has(.badge.warn) > span:last-child').innerText",
        );
        let sentence = sentence.as_str().unwrap().to_owned();
        assert!(
            sentence.contains("paused by anna since ") && sentence.ends_with(": stock-taking"),
            "{sentence}"
        );
        seen.insert(sentence);
    }
    assert_eq!(seen.len(), zones.len(), "the control: the zones differ: {seen:?}");
    // Live updates keep the zone.
    let newest = "document.querySelector('#why li time').dateTime";
    let before = browser.evaluate(&format!("return {newest}"));
    browser.wait_until(&format!("{newest} !== {before}"));
    let time = browser.evaluate("const time = document.querySelector('#why time[data-near]'); return [time.dateTime, time.dataset.near, time.textContent]");
    let [instant, near, shown] = [0, 1, 2].map(|part| time[part].as_str().unwrap());
    assert_eq!(shown, expected(instant, near, &TimeZone::get("America/New_York").unwrap()));

    browser.open(&site.url("timeline"));
    let hours = "return [...document.querySelectorAll('#load text[data-hour]')].map((hour) => [hour.dataset.at, hour.textContent])";
    for (choice, name) in [zones[2], zones[0]] {
        choose_zone(&browser, choice);
        for hour in browser.evaluate(hours).as_array().unwrap() {
            let at = hour[0].as_str().unwrap();
            let expected = expected(at, at, &TimeZone::get(name).unwrap());
            assert_eq!(hour[1].as_str(), expected.get(..2), "{at} in {name}");
        }
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
    drop(browser);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_updates_stop_and_continue_at_a_click() {
    let site = Site::start("memory://halted", "live").await;
    let browser = Browser::start();
    browser.open(&site.url("job?key=quick"));
    browser.wait_until("document.getElementById('live').dataset.state === 'on'");
    browser.click("#live");
    browser.wait_until("document.getElementById('live').dataset.state === 'off'");
    let _ran = site.worker.run_now("quick").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(browser.evaluate("return document.querySelectorAll('#history tbody tr').length"), 0);
    browser.click("#live");
    browser.wait_until("document.querySelectorAll('#history tbody tr').length === 1");
    // A problem is in the title, which is followed, too.
    assert_eq!(browser.evaluate("return document.title"), "quick · Test");
    site.office.pause("quick").await.unwrap();
    browser.wait_until("document.title === '(1) quick · Test'");
    assert_eq!(browser.errors(), Vec::<String>::new());
    drop(browser);
    site.stop().await;
}

/// A viewer must not keep a web server from stopping.
#[tokio::test(flavor = "multi_thread")]
async fn standalone_server_stops_while_a_viewer_is_connected() {
    let jobs = jobs::builder().without_jobs().url("memory://stop").start_all().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(jobs::dashboard::serve(listener, Dashboard::new(jobs.clone()), None));
    let mut viewer = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!("GET /events?page=overview HTTP/1.1\r\nHost: {address}\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut viewer, head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut viewer, &mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    jobs.shutdown().await;
    timeout(Duration::from_secs(5), serving).await.expect("it stops").unwrap().unwrap();
}
