//! A headless Chromium, driven by the `WebDriver` protocol: JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::folder::TempFolder;

const PATIENCE: Duration = Duration::from_secs(20);

/// The driver takes a free port of IPv4, and exits if another process has the same one of IPv6.
const ATTEMPTS: usize = 5;

/// The name of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: TempFolder,
}

/// Returns a driver and its port; `None` if it exited without one.
fn start_driver() -> Option<(Child, u16)> {
    let mut driver = Command::new("chromedriver")
        .args(["--port=0", "--log-level=SEVERE"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver: run ./tests/run, or install it: apt-get install chromium chromium-driver");
    let mut lines = BufReader::new(driver.stdout.take().expect("its output is piped")).lines();
    let mut said = Vec::new();
    let port = lines.find_map(|line| {
        let line = line.expect("its output");
        let port =
            line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.').parse());
        said.push(line);
        port?.ok()
    });
    let Some(port) = port else {
        eprintln!("chromedriver named no port ({:?}): {said:?}", driver.wait());
        return None;
    };
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, port))
}

impl Browser {
    pub fn start() -> Self {
        let (driver, port) =
            (0..ATTEMPTS).find_map(|_| start_driver()).expect("a driver that names its port");
        let profile = TempFolder::new();
        let mut browser = Self { driver, port, session: String::new(), profile };
        browser.open_session();
        browser
    }

    fn open_session(&mut self) {
        let mut arguments: Vec<_> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1280,900",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--user-data-dir={}", self.profile.path().display()));
        let options = json!({ "args": arguments });
        let capabilities = json!({ "alwaysMatch": { "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } } });
        let answer = self.send("POST", "/session", &json!({ "capabilities": capabilities }));
        answer["sessionId"].as_str().expect("a session").clone_into(&mut self.session);
    }

    /// One request to the driver. The error is its message.
    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut connection =
            TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        connection
            .write_all(head.as_bytes())
            .and_then(|()| connection.write_all(body.as_bytes()))
            .map_err(|error| error.to_string())?;
        let mut reader = BufReader::new(connection);
        let mut length = None;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(|error| error.to_string())?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>().ok();
            }
        }
        let mut answer = vec![0; length.ok_or("an answer without a length")?];
        reader.read_exact(&mut answer).map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.request(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn in_session(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.request("POST", &format!("/session/{}{path}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        self.in_session("/url", &json!({ "url": url })).expect("a page");
    }

    /// The value of a JavaScript function's body.
    pub fn evaluate(&self, script: &str) -> Value {
        self.in_session("/execute/sync", &json!({ "script": script, "args": [] }))
            .unwrap_or_else(|error| panic!("{}: {error}", &script[..script.len().min(300)]))
    }

    /// The value that the script passes to its last argument.
    pub fn evaluate_later(&self, script: &str) -> Value {
        self.in_session("/execute/async", &json!({ "script": script, "args": [] })).expect("a value")
    }

    pub fn text(&self) -> String {
        self.evaluate("return document.body.innerText").as_str().expect("text").to_owned()
    }

    /// Waits until a condition in JavaScript holds.
    pub fn wait_until(&self, condition: &str) {
        let give_up = Instant::now() + PATIENCE;
        while self.evaluate(&format!("return Boolean({condition})")) != json!(true) {
            assert!(
                Instant::now() < give_up,
                "{condition} does not come true; the page shows:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_for_text(&self, text: &str) {
        self.wait_until(&format!("document.body.innerText.includes({})", json!(text)));
    }

    fn element(&self, selector: &str) -> Result<String, String> {
        let found = self.in_session("/element", &json!({ "using": "css selector", "value": selector }))?;
        Ok(found[ELEMENT].as_str().ok_or("no element")?.to_owned())
    }

    /// Clicks on an element as soon as it is there. Live updates may replace it meanwhile.
    pub fn click(&self, selector: &str) {
        self.act(selector, "/click", &json!({}));
    }

    pub fn type_into(&self, selector: &str, text: &str) {
        self.act(selector, "/value", &json!({ "text": text }));
    }

    fn act(&self, selector: &str, what: &str, body: &Value) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let done =
                self.element(selector).and_then(|id| self.in_session(&format!("/element/{id}{what}"), body));
            match done {
                Ok(_) => return,
                Err(error) if Instant::now() > give_up => {
                    panic!("{selector}: {error}; the page shows:\n{}", self.text())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Errors in the browser's console since the last call: refused scripts and styles, exceptions.
    pub fn errors(&self) -> Vec<String> {
        let log = self.in_session("/se/log", &json!({ "type": "browser" })).expect("the console");
        let entries = log.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].to_string())
            .collect()
    }

    /// Sets the colour scheme that the system prefers, and the width of the window.
    pub fn look_like(&self, scheme: &str, width: u32, height: u32) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Sets the time zone of the system.
    pub fn set_zone(&self, zone: &str) {
        self.devtools("Emulation.setTimezoneOverride", &json!({ "timezoneId": zone }));
    }

    /// The window as a PNG, in base64.
    pub fn screenshot(&self) -> Vec<u8> {
        let image = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        decode(image["data"].as_str().expect("an image"))
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.in_session("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).expect(command)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _closed = self.request("DELETE", &format!("/session/{}", self.session), &json!({}));
        let _ended = self.driver.kill();
        let _reaped = self.driver.wait();
    }
}

fn decode(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for byte in base64.bytes().filter(|byte| *byte != b'=') {
        let digit = DIGITS.iter().position(|digit| *digit == byte).expect("base64");
        bits = bits << 6 | u32::try_from(digit).expect("a small number");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("a byte"));
        }
    }
    bytes
}
