use jobs::events::EventKind;
use jobs::fleet::ServerInfo;
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, NOON, Notes, job, runner, secs};

async fn seen_by(fleet: &Fleet, server: usize) -> Vec<ServerInfo> {
    let mut servers = fleet.server(server).servers().await.unwrap();
    servers.sort_by(|one, other| one.id.cmp(&other.id));
    servers
}

fn ids(servers: &[ServerInfo]) -> Vec<&str> {
    servers.iter().map(|server| server.id.as_str()).collect()
}

async fn three() -> Fleet {
    Fleet::of(3).job(Notes::new().lasting(job("1h", 30), 60)).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_server_lists_all_servers_from_their_start() {
    let mut fleet = three().await;
    fleet.run_for(secs(1)).await;
    for server in 0..3 {
        let seen = seen_by(&fleet, server).await;
        assert_eq!(ids(&seen), ["server-0", "server-1", "server-2"]);
        assert!(seen.iter().all(|server| server.jobs[0].key == "job" && server.started == NOON));
        assert!(seen.iter().all(|server| server.jobs[0].hash == seen[0].jobs[0].hash), "the same policy");
        assert_eq!(seen[0].version, env!("CARGO_PKG_VERSION"), "the packages of the workspace share it");
    }
    let added = fleet.add_server().await.unwrap();
    fleet.run_for(secs(1)).await;
    let seen = seen_by(&fleet, 0).await;
    assert_eq!(seen[added].started, NOON + secs(1));
}

#[tokio::test(start_paused = true)]
async fn servers_stay_on_the_list_while_they_run() {
    let fleet = three().await;
    for _ in 0..100 {
        fleet.run_for(secs(7)).await;
        assert_eq!(seen_by(&fleet, 0).await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn crashed_server_leaves_the_list_within_a_minute() {
    let fleet = three().await;
    fleet.run_for(secs(101)).await;
    fleet.server(1).crash();
    fleet.run_for(secs(15)).await;
    assert_eq!(seen_by(&fleet, 0).await.len(), 3, "one announcement may get lost");
    fleet.run_for(secs(44)).await;
    assert_eq!(ids(&seen_by(&fleet, 0).await), ["server-0", "server-2"]);
}

#[tokio::test(start_paused = true)]
async fn server_that_was_shut_down_leaves_the_list_at_once() {
    let mut fleet = three().await;
    fleet.run_for(secs(100)).await;
    fleet.shut_down(1).await;
    assert_eq!(ids(&seen_by(&fleet, 0).await), ["server-0", "server-2"]);
}

#[tokio::test(start_paused = true)]
async fn current_runs_are_listed_with_their_servers() {
    let fleet = three().await;
    fleet.run_for(secs(HOUR + 25)).await;
    let (running, fence) = (runner(&fleet).await, fleet.history("job").await.current.unwrap().fence);
    let seen = seen_by(&fleet, 0).await;
    for (number, server) in seen.iter().enumerate() {
        let fences: Vec<_> = server.running.iter().map(|run| (run.key.as_str(), run.fence)).collect();
        assert_eq!(fences, if number == running { vec![("job", fence)] } else { vec![] });
    }
    fleet.run_for(secs(60)).await;
    assert!(seen_by(&fleet, 0).await.iter().all(|server| server.running.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_shutdown_waits_for_a_run_stays_on_the_list_until_it_ends() {
    let fleet = Fleet::of(2).job(Notes::new().lasting(job("1h", 30), 120)).shutdown_grace(secs(200));
    let mut fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let running = runner(&fleet).await;
    let mut observer = fleet.add_server().await.unwrap();
    let stopping = fleet.shut_down(running);
    assert!(tokio::time::timeout(secs(90), stopping).await.is_err(), "it waits for its run");
    observer -= 1;
    let seen = seen_by(&fleet, observer).await;
    assert!(seen.iter().any(|server| !server.running.is_empty()), "{seen:?}");
    fleet.run_for(secs(60)).await;
    assert_eq!(seen_by(&fleet, observer - 1).await.len(), 2, "gone when its run has ended");
}

#[tokio::test(start_paused = true)]
async fn wrong_clock_is_listed_and_reported_once() {
    let fleet = Fleet::of(2).job(Notes::new().lasting(job("1h", 30), 5)).clock_off_by(1, -5_000);
    let fleet = fleet.start().await.unwrap();
    let heard: Vec<_> = fleet.servers().iter().map(Heard::from).collect();
    fleet.run_for(secs(HOUR)).await;
    let seen = seen_by(&fleet, 0).await;
    assert_eq!([seen[0].clock_ahead_micros, seen[1].clock_ahead_micros], [0, -5_000_000]);
    let told = |heard: &Heard| heard.count(|kind| matches!(kind, EventKind::ClockDiffers { .. }));
    assert_eq!(heard.iter().map(told).collect::<Vec<_>>(), [0, 1]);
    assert!(heard[1].all().contains(&EventKind::ClockDiffers { ahead_micros: -5_000_000 }));
}

#[tokio::test(start_paused = true)]
async fn clock_that_goes_wrong_again_is_reported_again() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    for step in [2_000, -2_000, 3_000] {
        fleet.run_for(secs(60)).await;
        fleet.server(0).clock().step(step);
    }
    fleet.run_for(secs(60)).await;
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::ClockDiffers { .. })), 2);
}

#[tokio::test(start_paused = true)]
async fn another_policy_of_the_same_job_shows_in_its_hash() {
    let notes = Notes::new();
    let (old, new) = (notes.lasting(job("1h", 30), 5), notes.lasting(job("1h", 31), 5));
    let made = std::sync::atomic::AtomicUsize::new(0);
    let job = move || if made.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 { old() } else { new() };
    let fleet = Fleet::of(3).job(job).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    let hashes: Vec<_> = seen_by(&fleet, 0).await.iter().map(|server| server.jobs[0].hash.clone()).collect();
    assert!(hashes[0] != hashes[1] && hashes[1] == hashes[2], "{hashes:?}");
}
