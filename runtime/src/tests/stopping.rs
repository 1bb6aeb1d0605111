//! A shutdown, and the end of a server that failed, do not wait for a blocked application.

use super::*;
use crate::Closed;
use crate::server::operate::manual_run;
use crate::server::thread;
use crate::store::UnfinishedTick;
use crate::tick::takeover;

/// An application that polls no task, and one whose runtime has ended.
fn applications() -> [Spawner; 2] {
    let blocked = SimulatedProcess::on_current_runtime();
    blocked.stop();
    let ended = std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().handle().clone());
    [
        Spawner::Simulated(blocked),
        Spawner::Runtime(ended.join().expect("a handle of a runtime that is dropped")),
    ]
}

fn server_with_application(app: Spawner) -> Arc<Server> {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let jobs = vec![job("24h", 30).retry_on_crash(1).run(|_| std::future::ready(())).build().unwrap()];
    Arc::new(Server::new(ServerConfig { jobs, app, ..setup("server", &link, clock) }))
}

/// Serves until the server is stopped or has failed, and checks that it ends soon after that.
async fn ends_soon(server: &Arc<Server>) -> Closed {
    let serving = tokio::spawn({
        let server = server.clone();
        async move { thread::serve(&server).await }
    });
    seconds(100).await;
    server.shut_down();
    let ended = tokio::time::timeout(Duration::from_secs(1), serving).await;
    ended.expect("nothing is waited for that cannot come").unwrap()
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_manual_run_that_waits_for_the_application() {
    for (app, closed) in applications().into_iter().zip([Closed::ShutDown, Closed::Failed]) {
        let server = server_with_application(app);
        let refused = Arc::new(Mutex::new(None));
        let (asking, answer) = (server.clone(), refused.clone());
        server.spawn(async move {
            let job = asking.jobs["job"].clone();
            *answer.lock().unwrap() = manual_run::run_here(&asking, &job, "operator".into()).await.err();
        });
        assert_eq!(ends_soon(&server).await, closed);
        let refused = refused.lock().unwrap().take().expect("the caller gets an error");
        assert!(refused.to_string().contains("shutting down"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_takeover_that_waits_for_the_application() {
    for (app, closed) in applications().into_iter().zip([Closed::ShutDown, Closed::Failed]) {
        let server = server_with_application(app);
        let waiting = server.clone();
        server.spawn(async move {
            let unfinished = UnfinishedTick { tick: NOON, remaining: Some(Duration::ZERO) };
            takeover::wait(&waiting, &waiting.jobs["job"], unfinished).await;
        });
        assert_eq!(ends_soon(&server).await, closed);
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_queued_tick_that_waits_for_the_application() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let process = SimulatedProcess::on_current_runtime();
    let app = Spawner::Simulated(process.clone());
    let waiting = Arc::new(Server::new(ServerConfig { app, ..setup("waiting", &link, clock.clone()) }));
    let queued = job("1h", 30).overlap(crate::schedule::Overlap::Queue).grace(Duration::from_secs(3000));
    let other = server("other", &link, clock);
    schedule(&other, queued.clone().run(|_| seconds(5000)).build().unwrap());
    seconds(3601).await;
    schedule(&waiting, queued.run(|_| std::future::ready(())).build().unwrap());
    seconds(3600).await;
    process.stop();
    seconds(60).await;
    assert!(!waiting.tracked.is_empty(), "its tick is queued");
    waiting.shut_down();
    let finished = thread::finish(&waiting, Duration::from_secs(25));
    tokio::time::timeout(Duration::from_secs(1), finished).await.expect("it ends without the application");
}
