//! Screenshots of every page of the example `dashboard`, for `examples/dashboard`. Not a test, so it is ignored:
//!
//!     cargo build --example dashboard && cargo test --test dashboard -- --ignored screenshots
//!
//! `JOBS_SCREENSHOT_AFTER` sets how long the example runs before, in seconds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::browser::Browser;
use support::folder::TempFolder;

const PAGES: [(&str, &str); 6] = [
    ("jobs", "overview"),
    ("job", "job?key=sync-stock"),
    ("timeline", "timeline?range=minutes"),
    ("servers", "servers"),
    ("locks", "locks"),
    ("audit", "audit"),
];

#[test]
#[ignore = "takes minutes, and writes to examples/dashboard"]
fn screenshots_of_every_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (folder, state) = (root.join("examples/dashboard"), TempFolder::new());
    fs::create_dir_all(&folder).unwrap();
    let mut example = Command::new(root.join("target/debug/examples/dashboard"))
        .env("XDG_STATE_HOME", state.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example: cargo build --example dashboard");
    let mut url = String::new();
    BufReader::new(example.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let wait = std::env::var("JOBS_SCREENSHOT_AFTER").ok().and_then(|text| text.parse().ok()).unwrap_or(240);
    std::thread::sleep(Duration::from_secs(wait));
    let browser = Browser::start();
    for (name, page) in PAGES {
        for (device, width, height) in [("desktop", 1200, 800), ("phone", 390, 780)] {
            for scheme in ["light", "dark"] {
                browser.look_like(scheme, width, height);
                browser.open(&format!("{}{page}", url.trim()));
                browser.wait_until("document.getElementById('live').dataset.state === 'on'");
                let image = browser.screenshot();
                let path = folder.join(format!("{name}-{device}-{scheme}.png"));
                println!("{} {} bytes", path.display(), image.len());
                fs::write(path, image).unwrap();
            }
        }
    }
    drop(browser);
    // The workers end with it, because their pipes close.
    example.kill().unwrap();
    example.wait().unwrap();
}
