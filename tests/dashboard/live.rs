//! Live updates: pages change without a reload.

use std::time::Duration;

use super::browser::Browser;
use super::site::Site;
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
    browser.evaluate(
        "const zone = document.getElementById('zone'); zone.value = 'browser'; zone.dispatchEvent(new Event('change'))",
    );
    browser.wait_until("localStorage.getItem('jobs-zone') === 'browser'");
    browser.click("#theme");
    browser.click("#theme");
    browser.wait_until("document.documentElement.dataset.theme === 'dark'");
    browser.wait_until("getComputedStyle(document.body).backgroundColor === 'rgb(16, 20, 28)'");
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
