//! A server process: all jobs and locks, its history, and the orders of the harness.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jobs::events::{Event, EventKind, SkipReason};
use jobs::store::Store;
use jobs::store::file::FileStore;
use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::sqlite::SqliteStore;
use jobs::testing::Intercept;
use jobs::testing::check::{HELD, LeaseRef, Observed};
use jobs::{Jobs, Timestamp};
use support::worker::{orders, setting, tell};
use tokio::signal::unix::{SignalKind, signal};

use super::history::{Journal, append_to};
use super::swaps::SwapLog;
use super::{controls, locks, plan};

/// In a worker: does what it was started for, and returns true.
pub fn begin() -> bool {
    let Some(role) = setting("ROLE") else { return false };
    let folder = setting("FOLDER").expect("a folder");
    let name = setting("NAME").expect("a name");
    let journal = Journal::open(Path::new(&folder), &name);
    std::thread::spawn(|| journal.history.watch_load(|| true));
    log_to_file(Path::new(&folder), &name);
    // One thread: a job that blocks it hangs the whole application.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "serve" => serve(&name).await,
            control => controls::worker(control).await,
        }
    });
    true
}

async fn serve(name: &str) {
    let journal = Journal::get();
    journal.history.note(Observed::ServerStarted);
    let builder = jobs::builder().without_annotated().server_id(name).store(open());
    let interval = Duration::from_secs(setting("INTERVAL").expect("an interval").parse().expect("seconds"));
    let builder = builder.jobs(plan::jobs().iter().map(|job| job.job(interval)));
    let builder = builder.shutdown_grace("1s").history_limit(500).allow_degraded_start().on_event(note_event);
    let mut terminated = signal(SignalKind::terminate()).expect("a signal");
    let jobs = builder.start_all().await.expect("a server that starts");
    locks::use_all(&jobs);
    tell("ready");
    let mut orders = orders();
    loop {
        tokio::select! {
            _ = terminated.recv() => break,
            order = orders.recv() => match order.as_deref().and_then(|order| order.split_once(' ')) {
                Some(("block", millis)) => block(millis),
                Some(("run_now", key)) => run_now(&jobs, key),
                _ => std::process::exit(1), // the harness is gone
            },
        }
    }
    jobs.shutdown().await;
    journal.history.note(Observed::ServerEnded);
}

fn open() -> Intercept<SwapLog> {
    let url = setting("URL").expect("a store");
    let store: Arc<dyn Store> = if let Some(folder) = url.strip_prefix("file://") {
        Arc::new(FileStore::open(folder, None).expect("a folder"))
    } else if let Some(path) = url.strip_prefix("sqlite://") {
        Arc::new(SqliteStore::open(path, None).expect("a database"))
    } else if url.starts_with("mysql") {
        Arc::new(MysqlStore::open(&url, None).expect("a URL"))
    } else if url.starts_with("postgres") {
        Arc::new(PostgresStore::open(&url, None).expect("a URL"))
    } else {
        Arc::new(RedisStore::open(&url, None).expect("a URL"))
    };
    Intercept::new(store, SwapLog)
}

/// Blocks the application, as a deadlock does.
fn block(millis: &str) {
    std::thread::sleep(Duration::from_millis(millis.parse().expect("milliseconds")));
}

fn run_now(jobs: &Jobs, key: &str) {
    let (jobs, key) = (jobs.clone(), key.to_owned());
    tokio::spawn(async move {
        let answer = format!("{:?}", jobs.run_now(&key).await);
        Journal::get().report(&format!("run_now {key}: {}", answer.chars().take(200).collect::<String>()));
    });
}

/// Notes what an event says about a tick or a lease.
fn note_event(event: &Event) {
    let key: Arc<str> = event.key.as_str().into();
    let explained = |first: Timestamp, until: Timestamp, why: &str| Observed::Explained {
        key: key.clone(),
        first,
        until,
        why: why.into(),
    };
    let at = |tick: Timestamp, why: &str| Some(explained(tick, tick + Duration::from_micros(1), why));
    let observed = match &event.kind {
        EventKind::Skipped { reason: SkipReason::Taken(_), .. } => return,
        EventKind::Skipped { tick, reason } => why_not_run(reason).and_then(|why| at(*tick, why)),
        EventKind::Overdue { tick } => at(*tick, "overdue"),
        EventKind::Missed { first, won, .. } => Some(explained(*first, *won, "missed")),
        EventKind::LeaseLost { run, .. } => {
            Some(Observed::Lost(LeaseRef { key: key.clone(), fence: run.fence }))
        }
        EventKind::LockLost { fence } => Some(Observed::Lost(LeaseRef { key: key.clone(), fence: *fence })),
        _ => None,
    };
    let journal = Journal::get();
    if let Some(observed) = observed {
        journal.history.note(observed);
    }
    journal.report(&format!("{:?} {} {:?}", event.at, event.key, event.kind));
}

/// The reason of a skip, if it holds for every server.
fn why_not_run(reason: &SkipReason) -> Option<&'static str> {
    Some(match reason {
        SkipReason::Held(_) => HELD,
        SkipReason::Paused(_) => "paused",
        SkipReason::Late(_) => "late",
        SkipReason::WonTooLate => "won too late",
        SkipReason::ApplicationBlocked => "the application was blocked",
        SkipReason::StoreUnavailable(_) => "the store was unavailable",
        SkipReason::NotReplicated(_) => "too few replicas",
        // Another server may run it.
        _ => return None,
    })
}

fn log_to_file(folder: &Path, name: &str) {
    let file = append_to(&folder.join(format!("{name}.log")));
    let level = std::env::var("JOBS_CHAOS_LOG").unwrap_or_else(|_| "jobs=warn".to_owned());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).with_writer(Arc::new(file)).init();
}
