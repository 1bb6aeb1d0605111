//! Requests that are refused: from other origins, without a secret, and for actions that are not allowed. Each has a control.

use std::time::{Duration, Instant};

use jobs::dashboard::{Authentication, Dashboard, ServeError, serve};
use jobs::fleet::ActionKind;
use tokio::net::TcpListener;

use super::site::{Answer, Site, get, own_page, request};

const PAUSE: &str = "action=pause&key=quick&reason=test";

async fn post(address: &str, head: &[String]) -> Answer {
    request(address, "POST", "/jobs/action", head, PAUSE).await
}

/// Whether the job is paused; it is resumed.
async fn was_paused(site: &Site) -> bool {
    site.office.resume("quick").await.unwrap().is_some()
}

#[tokio::test]
async fn action_from_another_origin_is_refused() {
    let site = Site::start("memory://origins", "refused").await;
    let address = site.address.clone();
    let kind = "Content-Type: application/x-www-form-urlencoded".to_owned();
    let own = format!("Origin: http://{address}");
    let refused = [
        vec!["Origin: http://evil.example".to_owned()],
        vec!["Origin: null".to_owned()],
        vec![],
        vec!["Sec-Fetch-Site: same-origin".to_owned()],
        vec![own.clone(), "Sec-Fetch-Site: cross-site".to_owned()],
        vec![own.clone(), "Sec-Fetch-Site: same-site".to_owned()],
        vec![own.clone(), "Sec-Fetch-Site: none".to_owned()],
        vec![own.clone(), "Host: evil.example".to_owned()],
        vec![own.clone(), "Origin: http://evil.example".to_owned()],
        vec!["Origin: http://evil.example".to_owned(), "Sec-Fetch-Site: same-origin".to_owned()],
    ];
    for mut head in refused {
        head.push(kind.clone());
        let answer = post(&address, &head).await;
        assert_eq!(answer.status, 403, "{head:?}: {}", answer.text);
        assert!(!was_paused(&site).await, "{head:?}");
    }
    let as_text = vec![own.clone(), "Content-Type: text/plain".to_owned()];
    assert_eq!(post(&address, &as_text).await.status, 415);
    assert!(!was_paused(&site).await);
    // The control: the dashboard's own page, also in a browser that does not send `Sec-Fetch-Site`.
    for head in [own_page(&address), vec![own, kind]] {
        assert_eq!(post(&address, &head).await.status, 200, "{head:?}");
        assert!(was_paused(&site).await, "{head:?}");
    }
    site.stop().await;
}

#[tokio::test]
async fn action_by_get_is_refused() {
    let site = Site::start("memory://by-get", "refused").await;
    let answer =
        request(&site.address, "GET", &format!("/jobs/action?{PAUSE}"), &own_page(&site.address), "").await;
    assert_eq!(answer.status, 405, "{}", answer.text);
    assert!(!was_paused(&site).await);
    site.stop().await;
}

#[tokio::test]
async fn read_only_dashboard_refuses_every_action_and_shows_disabled_buttons() {
    let site = Site::start_with("memory://read-only", "refused", |dashboard| dashboard).await;
    for body in ["run", "cancel", "pause", "resume", "unlock"]
        .map(|action| format!("action={action}&key=quick"))
        .into_iter()
        .chain(["pause", "resume"].map(|action| format!("action={action}&all=true")))
    {
        for path in ["/jobs/action", "/jobs/api/v1/action"] {
            let answer = request(&site.address, "POST", path, &own_page(&site.address), &body).await;
            assert_eq!(answer.status, 403, "{body}: {}", answer.text);
        }
        let confirm = get(&site.address, &format!("/jobs/confirm?{body}")).await;
        assert_eq!(confirm.status, 403, "{body}");
    }
    assert!(site.office.history("quick").await.unwrap().runs.is_empty());
    assert!(site.office.audit().await.unwrap().is_empty());
    for (path, label) in [("job?key=quick", "Run now"), ("overview", "Pause all")] {
        let page = get(&site.address, &format!("/jobs/{path}")).await;
        let button = format!("disabled title=\"This dashboard is read-only.\">{label}</button>");
        assert!(page.text.contains(&button), "{}", page.text);
        assert!(!page.text.contains("data-confirm"));
    }
    site.stop().await;
}

#[tokio::test]
async fn action_that_the_application_does_not_allow_is_refused() {
    let site = Site::start_with("memory://some-actions", "refused", |dashboard| {
        dashboard.allow_actions(|request, action| {
            let is_operator = request.headers.get("x-role").is_some_and(|role| role == "operator");
            is_operator && action.kind == ActionKind::Pause && action.key.as_deref() == Some("quick")
        })
    })
    .await;
    let address = site.address.clone();
    let mut operator = own_page(&address);
    operator.push("X-Role: operator".to_owned());
    assert_eq!(post(&address, &own_page(&address)).await.status, 403, "no operator");
    assert!(!was_paused(&site).await);
    for (body, status) in [
        ("action=run&key=quick", 403),
        ("action=pause&key=ticking", 403),
        ("action=pause&all=true", 403),
        ("action=resume&all=true", 403),
        ("action=reset&key=quick", 400),
        ("action=pause", 400),
        ("action=pause&key=quick&all=true", 400),
        ("action=pause&all=quick", 400),
        ("action=run&all=true", 400),
    ] {
        let answer = request(&address, "POST", "/jobs/action", &operator, body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
    }
    assert_eq!(site.office.overview().await.unwrap().pause, None);
    assert_eq!(post(&address, &operator).await.status, 200, "the control");
    assert!(was_paused(&site).await);
    // Without a name, the server's own is recorded.
    assert!(site.office.audit().await.unwrap().iter().all(|action| action.by.starts_with("office")));
    site.stop().await;
}

/// A standalone server.
async fn standalone(name: &str, authentication: Option<Authentication>) -> (jobs::Jobs, String) {
    let jobs = jobs::builder().without_jobs().url(format!("memory://{name}")).start_all().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve(listener, Dashboard::new(jobs.clone()), authentication));
    (jobs, address)
}

async fn with_secret(address: &str, authorization: &str) -> (u16, Duration) {
    let begun = Instant::now();
    let answer = request(address, "GET", "/overview", &[format!("Authorization: {authorization}")], "").await;
    (answer.status, begun.elapsed())
}

#[tokio::test]
async fn missing_and_wrong_tokens_are_refused_and_wrong_ones_late() {
    let (jobs, address) = standalone("token", Some(Authentication::token("s3cret-token"))).await;
    let missing = get(&address, "/overview").await;
    assert_eq!(missing.status, 401);
    assert!(missing.text.contains("www-authenticate: Basic"), "{}", missing.text);
    for wrong in [
        "Bearer wrong",
        "Bearer ",
        "Bearer s3cret-toke",
        "Basic YW5uYTp3cm9uZw==",
        "Basic !",
        "Digest x",
        "x",
    ] {
        let (status, took) = with_secret(&address, wrong).await;
        assert_eq!(status, 401, "{wrong}");
        assert!(took >= Duration::from_millis(500), "{wrong}: {took:?}");
    }
    // The control: the token, and as the password of any user: anna:s3cret-token.
    for right in ["Bearer s3cret-token", "bearer s3cret-token", "Basic YW5uYTpzM2NyZXQtdG9rZW4="] {
        let (status, took) = with_secret(&address, right).await;
        assert_eq!(status, 200, "{right}");
        assert!(took < Duration::from_millis(400), "{right}: {took:?}");
    }
    for path in ["/", "/script.js", "/events?page=overview", "/api/v1/overview", "/nothing"] {
        assert_eq!(get(&address, path).await.status, 401, "{path}");
    }
    jobs.shutdown().await;
}

#[tokio::test]
async fn wrong_users_and_passwords_are_refused() {
    let (jobs, address) = standalone("basic", Some(Authentication::basic("anna", "pass:word"))).await;
    // anna:pass, ben:pass:word, and the password as a token.
    for wrong in ["Basic YW5uYTpwYXNz", "Basic YmVuOnBhc3M6d29yZA==", "Bearer pass:word"] {
        assert_eq!(with_secret(&address, wrong).await.0, 401, "{wrong}");
    }
    assert_eq!(with_secret(&address, "Basic YW5uYTpwYXNzOndvcmQ=").await.0, 200, "the control");
    jobs.shutdown().await;
}

#[tokio::test]
async fn standalone_server_does_not_listen_beyond_loopback_without_a_secret() {
    let jobs = jobs::builder().without_jobs().url("memory://beyond").start_all().await.unwrap();
    let listener = || async { TcpListener::bind("0.0.0.0:0").await.unwrap() };
    let refused = serve(listener().await, Dashboard::new(jobs.clone()), None).await;
    assert!(matches!(refused, Err(ServeError::Unprotected(_))), "{refused:?}");
    let empty = serve(listener().await, Dashboard::new(jobs.clone()), Some(Authentication::token(""))).await;
    assert!(matches!(empty, Err(ServeError::EmptySecret)), "{empty:?}");
    // The control: with a secret it serves.
    let secret = Some(Authentication::token("s3cret-token"));
    let serving = tokio::spawn(serve(listener().await, Dashboard::new(jobs.clone()), secret));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!serving.is_finished());
    jobs.shutdown().await;
}

/// A page of a foreign name that resolves to this machine must not read the dashboard.
#[tokio::test]
async fn standalone_server_answers_only_for_loopback_names() {
    let (jobs, address) = standalone("names", None).await;
    let (_, port) = address.rsplit_once(':').unwrap();
    for foreign in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "10.0.0.1",
    ] {
        let answer = request(&address, "GET", "/overview", &[format!("Host: {foreign}")], "").await;
        assert_eq!(answer.status, 421, "{foreign}");
    }
    for own in
        [format!("localhost:{port}"), format!("[::1]:{port}"), "127.0.0.1".to_owned(), "LOCALHOST".to_owned()]
    {
        let answer = request(&address, "GET", "/overview", &[format!("Host: {own}")], "").await;
        assert_eq!(answer.status, 200, "{own}");
    }
    jobs.shutdown().await;
}

#[tokio::test]
async fn every_answer_has_the_headers_that_keep_it_safe() {
    let site = Site::start("memory://headers", "refused").await;
    for path in [
        "/jobs",
        "/jobs/overview",
        "/jobs/job?key=none",
        "/jobs/api/v1/jobs",
        "/jobs/script.js",
        "/jobs/nothing",
    ] {
        let answer = get(&site.address, path).await;
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'";
        assert!(answer.text.contains(policy), "{path}: {}", answer.text);
        for header in ["x-content-type-options: nosniff", "x-frame-options: DENY", "cache-control: "] {
            assert!(answer.text.contains(header), "{path}: {header}");
        }
        assert!(!answer.text.contains("style=\"") && !answer.text.contains("<script>"), "{path}");
    }
    site.stop().await;
}
