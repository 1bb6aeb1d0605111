//! A fleet with a dashboard, and plain requests to it.

use std::future::IntoFuture;
use std::time::Duration;

use axum::Router;
use jobs::dashboard::Dashboard;
use jobs::{Job, Jobs, Run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// A job key with every character that is allowed besides letters and digits.
pub const ODD_KEY: &str = "odd/key:with_every.character-09azAZ";
/// A job with a schedule in India, whose clocks are half an hour off those of other zones.
pub const ZONED_KEY: &str = "zoned";
pub const HOSTILE_ERROR: &str = "<script>document.title = 'taken over'</script> & \"quoted\" 'text'";
pub const HOSTILE_STATUS: &str = "<b onclick=alert(1)>half done</b>";

/// A server with jobs, and an office without any whose dashboard is served.
pub struct Site {
    pub worker: Jobs,
    pub office: Jobs,
    /// `127.0.0.1:1234`
    pub address: String,
}

impl Site {
    /// With actions allowed to everyone, in the name of anna.
    pub async fn start(url: &str, namespace: &str) -> Self {
        Self::start_with(url, namespace, |dashboard| {
            dashboard.allow_actions(|_, _| true).actor(|_| Some("anna".to_owned()))
        })
        .await
    }

    pub async fn start_with(url: &str, namespace: &str, set: impl FnOnce(Dashboard) -> Dashboard) -> Self {
        let builder = || jobs::builder().url(url).namespace(namespace);
        let worker =
            builder().without_annotated().jobs(jobs()).server_id("worker").version("1.0").start_all();
        let worker = worker.await.expect("a server");
        let office = builder().without_jobs().server_id("office").start_all().await.expect("a server");
        let dashboard = set(Dashboard::new(office.clone()).title("Test"));
        let address = serve(Router::new().nest_service("/jobs", dashboard.into_router())).await;
        Self { worker, office, address }
    }

    pub fn url(&self, page: &str) -> String {
        format!("http://{}/jobs/{page}", self.address)
    }

    pub async fn stop(self) {
        self.office.shutdown().await;
        self.worker.shutdown().await;
    }
}

fn jobs() -> Vec<Job> {
    let job = |key: &str| Job::builder(key).ttl("3s").description("Does <i>something</i>.");
    let built = [
        job("quick").run(|_| async { Ok::<_, std::io::Error>(()) }).build(),
        job("ticking").every("1s").run(|_| async { Ok::<_, std::io::Error>(()) }).build(),
        job(ZONED_KEY)
            .every_in("* * * * * *", "Asia/Kolkata")
            .run(|_| async { Ok::<_, std::io::Error>(()) })
            .build(),
        job("endless").run(endless).build(),
        job(ODD_KEY).run(|_| async { Err::<(), _>(std::io::Error::other(HOSTILE_ERROR)) }).build(),
    ];
    built.into_iter().map(|job| job.expect("a valid job")).collect()
}

async fn endless(run: Run) -> Result<(), std::io::Error> {
    run.set_progress(1, 4);
    run.set_status(HOSTILE_STATUS);
    loop {
        sleep(Duration::from_secs(1)).await;
    }
}

/// Serves the router on a free port, up to the end of the test.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// The answer to a request: status, and everything as text.
pub struct Answer {
    pub status: u16,
    pub text: String,
}

impl Answer {
    pub fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

/// Sends a request with these lines in its head.
pub async fn request(address: &str, method: &str, path: &str, head: &[String], body: &str) -> Answer {
    let mut connection = TcpStream::connect(address).await.expect("the dashboard");
    let first = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}", body.len());
    let mut lines = vec![first];
    if !head.iter().any(|line| line.starts_with("Host:")) {
        lines.push(format!("Host: {address}"));
    }
    lines.extend_from_slice(head);
    let text = lines.join("\r\n");
    connection.write_all(format!("{text}\r\n\r\n{body}").as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("an answer");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, text }
}

pub async fn get(address: &str, path: &str) -> Answer {
    request(address, "GET", path, &[], "").await
}

/// The head of an action as the dashboard's own page sends it.
pub fn own_page(address: &str) -> Vec<String> {
    vec![
        format!("Origin: http://{address}"),
        "Sec-Fetch-Site: same-origin".to_owned(),
        "Content-Type: application/x-www-form-urlencoded".to_owned(),
    ]
}
