//! The limit on the number of recorded runs.

use super::*;

/// The number of recorded runs after 120 that ended and one that never started.
async fn kept_beside_one_that_did_not_start(remember: usize, hinder: fn(&Arc<Server>, &Link)) -> usize {
    let clock = TestClock::new();
    let link = Link { latency: Duration::from_millis(10), ..Link::new(clock.clone()) };
    let server =
        Arc::new(Server::new(ServerConfig { history_limit: remember, ..setup("server", &link, clock) }));
    schedule(&server, Runs::default().noting(job("60s", 30)));
    seconds(120 * 60 + 59).await;
    assert_eq!(outcomes(&link).await, vec![RunOutcome::Succeeded; remember.min(120)]);
    hinder(&server, &link);
    seconds(50).await;
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    seconds(5).await;
    let outcomes = outcomes(&link).await;
    assert_eq!(outcomes.last(), Some(&RunOutcome::NotStarted));
    outcomes.len()
}

#[tokio::test(start_paused = true)]
async fn won_tick_whose_answer_was_lost_keeps_history_within_its_limit() {
    let reply_lost = |_: &Arc<Server>, link: &Link| link.swap_replies_lost.store(true, Ordering::SeqCst);
    assert_eq!(kept_beside_one_that_did_not_start(150, reply_lost).await, 121);
    assert_eq!(kept_beside_one_that_did_not_start(50, reply_lost).await, 50);
}

#[tokio::test(start_paused = true)]
async fn tick_won_during_shutdown_keeps_history_within_its_limit() {
    let stopping = |server: &Arc<Server>, _: &Link| {
        let server = server.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1005)).await;
            server.shut_down();
        });
    };
    assert_eq!(kept_beside_one_that_did_not_start(150, stopping).await, 121);
}

#[tokio::test(start_paused = true)]
async fn manual_run_won_during_shutdown_keeps_history_within_its_limit() {
    let by_hand = |server: &Arc<Server>, _: &Link| {
        let (server, job) = (server.clone(), Arc::new(job("60s", 30).run(|_| async {}).build().unwrap()));
        tokio::spawn(async move {
            let run = crate::server::operate::manual_run::run_here(&server, &job, "operator".into());
            let _refused = tokio::join!(run, async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                server.shut_down();
            });
        });
    };
    assert_eq!(kept_beside_one_that_did_not_start(150, by_hand).await, 121);
}
