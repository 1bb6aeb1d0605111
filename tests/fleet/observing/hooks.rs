//! `on_event`, on a whole server with its own thread, in real time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::events::EventKind;
use jobs::history::RunOutcome;
use jobs::store::memory::MemoryStore;
use jobs::{Builder, Job, Jobs, RunNow};

async fn start(name: &str, hook: impl Fn(&jobs::events::Event) + Send + Sync + 'static) -> Jobs {
    let job = Job::builder("job").run(|_| async {}).build().unwrap();
    let builder: Builder = jobs::builder().without_annotated().store(MemoryStore::named(name)).job(job);
    builder.on_event(hook).start_all().await.unwrap()
}

async fn run_three_times(jobs: &Jobs) {
    for _ in 0..3 {
        let Ok(RunNow::Ran(record)) = jobs.run_now("job").await else { panic!("it is free") };
        assert_eq!(record.outcome, RunOutcome::Succeeded);
    }
}

async fn soon(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain for {what}");
}

#[tokio::test]
async fn a_hook_is_called_for_every_event_in_order() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listening = heard.clone();
    let jobs = start("hook-in-order", move |event| listening.lock().unwrap().push(event.kind.clone())).await;
    run_three_times(&jobs).await;
    soon("six events", || heard.lock().unwrap().len() == 6).await;
    let kinds = heard.lock().unwrap().clone();
    for pair in kinds.chunks(2) {
        let [EventKind::Started(started), EventKind::Succeeded { run, .. }] = pair else {
            panic!("{kinds:?}")
        };
        assert_eq!(started, run);
    }
    jobs.shutdown().await;
}

#[tokio::test]
async fn hook_that_panics_does_not_disturb_runs_and_is_called_again() {
    let calls = Arc::new(Mutex::new(0));
    let called = calls.clone();
    let hook = move |_: &jobs::events::Event| {
        *called.lock().unwrap() += 1;
        panic!("a mistake in the hook");
    };
    let jobs = start("hook-panics", hook).await;
    run_three_times(&jobs).await;
    soon("six calls", || *calls.lock().unwrap() == 6).await;
    assert!(jobs.health().is_ready());
    jobs.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_that_blocks_does_not_delay_a_run() {
    let (let_go, held_up) = std::sync::mpsc::channel::<()>();
    let (entered, held_up) = (Arc::new(Mutex::new(0)), Mutex::new(held_up));
    let enters = entered.clone();
    let hook = move |_: &jobs::events::Event| {
        *enters.lock().unwrap() += 1;
        let _until_it_is_let_go = held_up.lock().unwrap().recv();
    };
    let jobs = start("hook-blocks", hook).await;
    tokio::time::timeout(Duration::from_secs(30), run_three_times(&jobs)).await.expect("runs go on");
    soon("the first call", || *entered.lock().unwrap() == 1).await;
    jobs.shutdown().await;
    drop(let_go);
}
