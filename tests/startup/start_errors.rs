//! Why a scheduler does not start, and what the environment can say about it.
#![cfg(unix)]

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use jobs::{Builder, Job, StartError, State, singleton_job};
use support::fleet::{Orders, wait_until};
use support::hand::Hand;
use support::redis_server::RedisServer;

#[derive(Clone)]
struct Db;

#[derive(Clone)]
struct Mailer;

#[singleton_job(key = "import-products", every = "0 * * * *")]
async fn import_products(State(_db): State<Db>) {}

#[singleton_job(key = "send-reports", every = "0 6 * * *")]
async fn send_reports(State(_db): State<Db>, State(_mailer): State<Mailer>, _hints: Option<State<u8>>) {}

fn job(key: &str) -> Job {
    Job::builder(key).every("1h").run(async |_| ()).build().unwrap()
}

/// A builder on a store of the process's own, with one job.
fn builder() -> Builder {
    jobs::builder().without_annotated().url("memory://start-errors").job(job("a"))
}

async fn refused(builder: Builder) -> StartError {
    match builder.start_all().await {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

/// The error's text, which must say all of this.
fn says(error: &StartError, all: &[&str]) {
    let text = error.to_string();
    for part in all {
        assert!(text.contains(part), "\"{part}\" is not in \"{text}\"");
    }
}

#[test]
fn no_runtime_is_an_error_and_not_a_panic() {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = pin!(builder().start_all()).poll(&mut context) else { panic!("it waits") };
    assert!(matches!(error, StartError::NoRuntime));
    says(&error, &["Tokio runtime", "#[tokio::main]"]);
}

#[tokio::test]
async fn error_of_a_start_without_jobs_explains_how_jobs_get_lost() {
    let error = refused(jobs::builder().without_annotated().url("memory://none")).await;
    assert!(matches!(error, StartError::NoJobs));
    says(&error, &["#[singleton_job(…)]", "use that_crate as _;"]);
}

#[tokio::test]
async fn a_key_used_twice_is_an_error_that_names_both_places() {
    let again = Job::builder("a").run(async |_| ()).build().unwrap();
    let line = line!() - 1;
    let error = refused(builder().job(again)).await;
    let StartError::Jobs(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 1, "{error}");
    let problem = &problems[0];
    let places =
        [&problem.place, &problem.message].map(|text| text.contains("tests/startup/start_errors.rs:"));
    assert_eq!((problem.key.as_str(), places), ("a", [true, true]), "{error}");
    says(&error, &[&format!("tests/startup/start_errors.rs:{line}:"), "each key names one job"]);
}

#[tokio::test]
async fn missing_state_is_one_error_with_every_job_and_type() {
    let error = refused(jobs::builder().url("memory://state")).await;
    let StartError::Jobs(problems) = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 3, "{error}");
    says(
        &error,
        &[
            "[import-products] at tests/startup/start_errors.rs:",
            "[send-reports] at tests/startup/start_errors.rs:",
        ],
    );
    says(
        &error,
        &[
            "State<startup::start_errors::Db>",
            "State<startup::start_errors::Mailer>",
            "jobs::builder().state(…)",
        ],
    );

    let complete = jobs::builder().url("memory://state").state(Db).state(Mailer);
    complete.start_all().await.expect("nothing is missing").shutdown().await;
}

#[tokio::test]
async fn state_given_twice_is_an_error() {
    let error = refused(builder().state(1_u8).state(2_u8)).await;
    says(&error, &["the builder's `state`", "`u8` was given twice"]);
}

#[tokio::test]
async fn every_bad_setting_is_refused_by_name() {
    for (builder, parts) in [
        (builder().url("mongodb://host"), ["the builder's `url`", "unknown scheme mongodb://"]),
        (builder().url("localhost:6379"), ["the builder's `url`", "not a URL"]),
        (builder().url("file://relative"), ["the builder's `url`", "absolute path"]),
        (
            builder().url("redis://:secret@host:port"),
            ["the builder's `url`: ", "did not parse; expected `redis://"],
        ),
        (
            builder().url("postgres://jobs:secret@host:port/shop"),
            ["the builder's `url`: ", "invalid value for option `port`; expected `postgres://"],
        ),
        (
            builder().url("postgresql://host/shop?sslmode=allow"),
            ["the builder's `url`: ", "expected one of disable"],
        ),
        (
            builder().url("redis://:secret@host?connect_timeout=0s"),
            ["the builder's `url`: ", "invalid `connect_timeout`: expected from 10ms to 60s"],
        ),
        (
            builder().url("redis://:secret@host?tiemout=1s"),
            ["the builder's `url`: ", "parameter number 1 is not known here; known are wait_replicas"],
        ),
        (
            builder().url("postgres://:secret@host/shop?response_timeout=1h"),
            ["the builder's `url`: ", "invalid `response_timeout`: expected from 10ms to 60s"],
        ),
        (builder().namespace("lock"), ["the builder's `namespace`", "every lock's key begins with it"]),
        (builder().namespace("a b"), ["the builder's `namespace`", "invalid namespace \"a b\""]),
        (builder().namespace(""), ["the builder's `namespace`", "invalid namespace \"\""]),
        (builder().max_concurrent(0), ["the builder's `max_concurrent`", "at least 1"]),
        (builder().server_id("my server"), ["the builder's `server_id`", ""]),
        (builder().shutdown_grace("25"), ["the builder's `shutdown_grace`", "invalid duration \"25\""]),
        (builder().without_jobs().expect_jobs(["a"]), ["the builder's `expect_jobs`", "`without_jobs`"]),
        (builder().schedule("b", "1h"), ["the builder's `schedule`", "there is no job \"b\""]),
        (builder().schedule("a", "often"), ["[a] at", "invalid `every` \"often\""]),
        (builder().disable("b"), ["the builder's `disable`", "there is no job \"b\""]),
    ] {
        let error = refused(builder).await;
        says(&error, &parts);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn unreachable_store_is_retried_for_ten_seconds_and_named_without_its_password() {
    let port = closed_port();
    let begun = Instant::now();
    let orders = Orders::role("serve").set("REDIS_URL", format!("redis://jobs:secret@127.0.0.1:{port}/2"));
    let server = orders.start();
    let error = server.wait_for("refused");
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(error.contains("the store from REDIS_URL cannot be used"), "{error}");
    assert!(error.contains(&format!("redis://jobs@127.0.0.1:{port}/2")), "{error}");
    assert!(error.contains("allow_degraded_start"), "{error}");
    assert!(!server.told().iter().any(|line| line.contains("secret")), "{:?}", server.told());
}

#[test]
fn a_wrong_password_is_refused_at_once() {
    let redis = RedisServer::start_with(&["--requirepass", "right"]);
    let orders = Orders::role("serve").set("JOBS_URL", redis.url().replace("//", "//:wrong@"));
    let begun = Instant::now();
    let server = orders.start();
    let error = server.wait_for("refused");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(error.contains("the store from JOBS_URL cannot be used"), "{error}");
    assert!(error.contains("check the user, its permissions"), "{error}");
    assert!(!error.contains("allow_degraded_start"), "waiting does not correct a password: {error}");
    assert!(!server.told().iter().any(|line| line.contains("wrong@")), "{:?}", server.told());
}

#[test]
fn a_degraded_start_runs_jobs_as_soon_as_redis_is_there() {
    let mut redis = RedisServer::start();
    redis.kill();
    let server = Orders::serve(&redis).set("WORKER_START_DEGRADED", 1).start();
    server.wait_for("ready");
    server.wait_for_log("starting without the store");
    server.wait_for("health StoreUnavailable");
    assert!(server.steps().is_empty());
    redis.restart();
    server.wait_for("run end");
    server.wait_for("health Ready");
    // What a start says of its store is said now.
    let warning = server.wait_for_log("the Redis server keeps nothing on disk");
    assert!(warning.starts_with("WARN"), "{warning}");
}

#[test]
fn jobs_url_comes_before_redis_url() {
    let (ours, cache) = (RedisServer::start(), RedisServer::start());
    let server = Orders::serve(&ours).set("REDIS_URL", cache.url()).start();
    server.wait_for("run end");
    assert!(Hand::on(&cache).say::<Vec<String>>("KEYS *").is_empty());
    assert!(!Hand::on(&ours).say::<Vec<String>>("KEYS *").is_empty());
}

#[test]
fn a_namespace_from_outside_is_the_prefix_of_every_key() {
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).set("JOBS_NAMESPACE", "shop").set("WORKER_STEPS", 5).start();
    server.wait_for("run step");
    assert!(Hand::on(&redis).say::<Option<String>>("GET shop:lock:import").is_some());
    let keys: Vec<String> = Hand::on(&redis).say("KEYS *");
    assert!(keys.iter().all(|key| key.starts_with("shop:") || key.starts_with("{shop:")), "{keys:?}");

    let refused = Orders::serve(&redis).set("JOBS_NAMESPACE", "sh{op").start().wait_for("refused");
    assert!(refused.starts_with("JOBS_NAMESPACE: invalid namespace"), "{refused}");
}

#[test]
fn jobs_are_disabled_and_rescheduled_from_outside() {
    let redis = RedisServer::start();
    let orders =
        Orders::serve(&redis).set("WORKER_KEYS", "import,report,export").set("WORKER_EVERY", "100ms");
    let orders = orders.set("JOBS_DISABLE", "report,unknown");
    let server = orders.set("JOBS_SCHEDULES", "export=1h; import=200ms; other=1h").start();
    let runs = |key: &str| -> Vec<_> {
        server.steps().into_iter().filter(|step| step.key == key && step.what == "start").collect()
    };
    wait_until("three runs", || runs("import").len() >= 3);
    let off_beat: Vec<_> =
        runs("import").into_iter().filter(|run| run.tick.as_micros() % 200_000 != 0).collect();
    assert!(off_beat.is_empty(), "{off_beat:?}");
    assert_eq!((runs("report").len(), runs("export").len()), (0, 0));
    server.wait_for_log("[report] is disabled on this server");
    let unknown =
        server.wait_for_log("JOBS_DISABLE names a job that this program does not have: \"unknown\"");
    assert!(unknown.starts_with("WARN"), "{unknown}");
    server.wait_for_log("JOBS_SCHEDULES names a job that this program does not have: \"other\"");
}

#[test]
fn a_server_with_every_job_disabled_starts_and_runs_nothing() {
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).set("WORKER_EVERY", "100ms").set("JOBS_DISABLE", "*").start();
    server.wait_for("ready");
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.steps().is_empty(), "{:?}", server.steps());
}

#[test]
fn a_bad_schedule_from_outside_is_refused_by_name() {
    let redis = RedisServer::start();
    let start = |schedules: &str| Orders::serve(&redis).set("JOBS_SCHEDULES", schedules).start();
    let unreadable = start("import").wait_for("refused");
    assert!(unreadable.contains("JOBS_SCHEDULES: expected `key=schedule; key=schedule`"), "{unreadable}");
    let invalid = start("import=61 * * * *").wait_for("refused");
    assert!(
        invalid.contains("[import] at") && invalid.contains("JOBS_SCHEDULES: invalid `every`"),
        "{invalid}"
    );
}

#[tokio::test]
async fn expected_job_that_is_not_linked_ends_the_start_by_name() {
    let error = refused(builder().expect_jobs(["a", "import", "export"])).await;
    assert!(matches!(&error, StartError::MissingJobs { missing, .. } if missing == &["import", "export"]));
    says(&error, &["missing jobs: import, export", "this program has a.", "use that_crate as _;"]);
    let none = jobs::builder().without_annotated().url("memory://none").expect_jobs(["import"]);
    says(&refused(none).await, &["missing jobs: import", "this program has no jobs"]);
    builder().expect_jobs(["a"]).start_all().await.expect("it is there").shutdown().await;
    let disabled = builder().expect_jobs(["a"]).disable("a").start_all().await;
    disabled.expect("a disabled job is there, too").shutdown().await;
}

#[tokio::test]
async fn shutdown_grace_is_a_duration_or_a_text() {
    for builder in [builder().shutdown_grace("1s"), builder().shutdown_grace(Duration::from_secs(1))] {
        builder.start_all().await.expect("both are understood").shutdown().await;
    }
}

#[tokio::test]
async fn tool_without_jobs_starts_on_request_and_operates_jobs_of_other_servers() {
    let report = Job::builder("report").every("1h").run(|_| async {}).build().unwrap();
    let url = "memory://a-tool-without-jobs";
    let server = jobs::builder().without_annotated().url(url).job(report).start_all().await.unwrap();
    let tool = jobs::connect(url).await.unwrap();
    // The server announces itself when it has started.
    let announced = async {
        while tool.servers().await.unwrap().iter().all(|server| server.jobs.is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), announced).await.expect("it announces itself");
    tool.pause("report").await.unwrap();
    assert!(server.history("report").await.unwrap().pause.is_some());
    tool.shutdown().await;
    server.shutdown().await;
}

/// Its own folder is what a debug build would choose, and nobody else is there. `tests/run` unsets the variables.
#[tokio::test]
async fn tool_without_jobs_needs_an_explicit_store() {
    let Err(refused) = jobs::builder().without_jobs().start_all().await else { panic!("it started") };
    assert!(refused.to_string().contains("name the store that the servers use"), "{refused}");
}
