//! What pages show, in the browser: every page, and text that looks like markup.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::browser::Browser;
use super::site::{HOSTILE_ERROR, HOSTILE_STATUS, ODD_KEY, Site, get, serve};

/// The pages, with a text that each shows.
pub const PAGES: [(&str, &str); 6] = [
    ("overview", "ticking"),
    ("job?key=ticking", "Why ticks ran or not"),
    ("timeline", "worker-"),
    ("servers", "singleton-jobs"),
    ("locks", "Done marks"),
    ("audit", "Actions of operators"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_opens_without_an_error_and_has_a_twin_in_json() {
    let site = Site::start("memory://every-page", "shown").await;
    let browser = Browser::start();
    for (page, text) in PAGES {
        browser.open(&site.url(page));
        browser.wait_for_text(text);
        browser.wait_until("document.getElementById('live').dataset.state === 'on'");
        assert_eq!(browser.errors(), Vec::<String>::new(), "{page}");
        let twin = page.replace("overview", "jobs");
        let json = get(&site.address, &format!("/jobs/api/v1/{twin}")).await;
        let json: serde_json::Value =
            serde_json::from_str(json.body()).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert_eq!(json["format"], 1, "{page}");
    }
    browser.open(&format!("http://{}/jobs", site.address));
    browser.wait_for_text("ticking");
    browser.open(&format!("http://{}/jobs/", site.address));
    browser.wait_for_text("ticking");
    drop(browser);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_status_and_key_with_markup_are_shown_as_text() {
    let site = Site::start("memory://hostile", "shown").await;
    let _failed = site.worker.run_now(ODD_KEY).await.unwrap();
    let worker = site.worker.clone();
    tokio::spawn(async move { worker.run_now("endless").await });
    let browser = Browser::start();
    browser.open(&site.url("overview"));
    browser.wait_for_text(HOSTILE_ERROR);
    browser.wait_for_text(HOSTILE_STATUS);
    browser.click(&format!("a[href*='{}']", &ODD_KEY[..3]));
    browser.wait_until(&format!("document.querySelector('h1').textContent === '{ODD_KEY}'"));
    browser.wait_for_text(HOSTILE_ERROR);
    browser.wait_for_text("Does <i>something</i>.");
    assert_ne!(browser.evaluate("return document.title"), "taken over");
    assert_eq!(
        browser.evaluate("return document.querySelectorAll('main script, main [onclick], main i').length"),
        0
    );
    // The control: the same text as markup would be found by these checks.
    browser.evaluate(&format!(
        "document.querySelector('main').innerHTML += {}",
        serde_json::json!(HOSTILE_STATUS)
    ));
    assert_eq!(browser.evaluate("return document.querySelectorAll('main [onclick]').length"), 1);
    drop(browser);
    site.stop().await;
}

/// Removes a prefix of the path, as many proxies do.
async fn proxy(upstream: String, request: Request) -> Response {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = path.strip_prefix("/ops/shop").unwrap_or(path).to_owned();
    let head: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("")))
        .collect();
    let mut connection = TcpStream::connect(&upstream).await.expect("the dashboard");
    let (method, lines) = (request.method().clone(), head.join("\r\n"));
    let body = axum::body::to_bytes(request.into_body(), 10_000).await.expect("a body");
    let text = format!("{method} {path} HTTP/1.0\r\n{lines}\r\n\r\n{}", String::from_utf8_lossy(&body));
    connection.write_all(text.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    let reading = connection.read_to_end(&mut answer);
    let _events_do_not_end = tokio::time::timeout(Duration::from_secs(3), reading).await;
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut response = Response::builder().status(&head[9..12]);
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").expect("a header");
        if !["content-length", "transfer-encoding", "connection"].contains(&name) {
            response = response.header(name, value);
        }
    }
    response.body(Body::from(answer[end + 4..].to_vec())).expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_works_behind_a_proxy_that_removes_a_prefix() {
    let site = Site::start("memory://proxied", "shown").await;
    let upstream = jobs::dashboard::Dashboard::new(site.office.clone()).allow_actions(|_, _| true);
    let upstream = serve(upstream.into_router()).await;
    let router = Router::new().fallback(move |_: Uri, request: Request| proxy(upstream.clone(), request));
    let address = serve(router).await;
    let browser = Browser::start();
    browser.open(&format!("http://{address}/ops/shop/"));
    browser.wait_for_text("ticking");
    browser.click("a[href='job?key=quick']");
    browser.wait_for_text("Why ticks ran or not");
    browser.click("main a.action.run");
    browser.click("dialog button.action.run");
    browser.wait_for_text("and succeeded.");
    for page in ["timeline", "servers", "locks", "audit"] {
        browser.click(&format!("header a[href='{page}']"));
        browser.wait_until(&format!("location.pathname === '/ops/shop/{page}'"));
    }
    assert_eq!(browser.evaluate("return getComputedStyle(document.querySelector('header')).display"), "flex");
    drop(browser);
    site.stop().await;
}
