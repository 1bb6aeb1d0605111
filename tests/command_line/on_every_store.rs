//! Every command, on Redis, PostgreSQL and files.

use std::time::{Duration, Instant};

use serde_json::Value;
use support::folder::TempFolder;
use support::postgres_server::PostgresServer;
use support::redis_server::RedisServer;

use super::kit::{Fleet, job};

/// Without notifications a request waits for a heartbeat, up to 20 s later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notifies {
    Yes,
    No,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_on_redis() {
    every_command(&RedisServer::start().url(), Notifies::Yes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_on_postgres() {
    every_command(&PostgresServer::shared().url(), Notifies::Yes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_on_files() {
    let folder = TempFolder::new();
    every_command(&format!("file://{}", folder.path().display()), Notifies::No).await;
}

async fn every_command(url: &str, notifies: Notifies) {
    let fleet = Fleet::start(url).await;
    lists_jobs_with_problems_first(&fleet).await;
    shows_a_job_and_its_history(&fleet).await;
    lists_servers(&fleet).await;
    explains_ticks(&fleet).await;
    runs_a_job(&fleet, notifies).await;
    cancels_a_run(&fleet, notifies).await;
    pauses_and_resumes(&fleet).await;
    lists_and_releases_locks(&fleet).await;
    keeps_an_audit_list(&fleet, notifies).await;
    diagnoses(&fleet).await;
    fleet.shut_down().await;
}

async fn lists_jobs_with_problems_first(fleet: &Fleet) {
    let listed = fleet.until(&["list"], |listed| listed["jobs"][0]["key"] == "failing").await;
    assert_eq!(job(&listed, "failing")["alerts"][0], "failing");
    assert_eq!(job(&listed, "quick")["schedule_in_words"], "every 1s");
    assert_eq!(job(&listed, "quick")["description"], "Does next to nothing.");
    let current = &job(&listed, "slow")["current"];
    assert!(current["server"].as_str().is_some_and(|server| server.starts_with("web-")), "{current}");

    let problems = fleet.jobs(&["list", "--problems"]).await;
    assert_eq!(problems.code, 1, "{problems:?}");
    assert!(problems.out.contains("failing") && !problems.out.contains("quick"), "{problems:?}");
    assert!(!problems.out.contains('\x1b'), "no colours outside of a terminal: {problems:?}");
    let filtered = fleet.jobs(&["list", "--filter", "qui", "--sort", "next"]).await;
    assert!(filtered.out.contains("quick") && !filtered.out.contains("slow"), "{filtered:?}");
    let none = fleet.jobs(&["list", "--problems", "--filter", "quick"]).await;
    assert_eq!((none.code, none.out.trim()), (0, "no job has a problem"));
}

async fn shows_a_job_and_its_history(fleet: &Fleet) {
    let has_progress = |shown: &Value| shown["job"]["current"]["progress"]["done"] == 3;
    let shown = fleet.until(&["show", "slow"], has_progress).await;
    assert_eq!(shown["job"]["current"]["progress"]["status"], "row 3");
    assert_eq!(shown["job"]["arguments"]["ttl"], "3s");
    let text = fleet.jobs(&["show", "slow"]).await.out;
    for part in ["every 1s", "3 of 10 row 3", "ttl = 3s", "newest ticks, times in UTC"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let history = fleet.json(&["history", "failing", "--outcome", "failed", "-n", "2"]).await;
    let runs = history["runs"].as_array().unwrap();
    assert!((1..=2).contains(&runs.len()), "{history:#}");
    assert_eq!(runs[0]["error"], "the supplier is down");
    assert_eq!(runs[0]["app_version"], "1.4");
    assert_eq!(
        fleet.json(&["history", "failing", "--outcome", "succeeded"]).await["runs"],
        Value::Array(vec![])
    );
}

async fn lists_servers(fleet: &Fleet) {
    let listed = fleet.until(&["servers"], |listed| listed["servers"].as_array().unwrap().len() == 2).await;
    let first = &listed["servers"][0];
    assert_eq!((first["app_version"].as_str(), first["labels"]["zone"].as_str()), (Some("1.4"), Some("eu")));
    assert_eq!(first["jobs"], serde_json::json!(["failing", "manual", "quick", "slow"]));
    assert!(fleet.jobs(&["servers"]).await.out.contains("zone=eu"));
}

async fn explains_ticks(fleet: &Fleet) {
    let skipped = |ticks: &Value| {
        let ticks = ticks["ticks"].as_array().unwrap().iter();
        ticks.filter(|tick| tick["fate"] == "skipped").map(|tick| tick["reason"].clone()).next()
    };
    let explained = fleet.until(&["why", "slow"], |ticks| skipped(ticks).is_some()).await;
    let reason = skipped(&explained).unwrap();
    assert!(reason.as_str().unwrap().contains("still held the key on web-"), "{reason}");

    let is_full = |ticks: &Value| ticks["ticks"].as_array().unwrap().len() == 4;
    let explained = fleet.until(&["why", "failing", "-n", "3"], is_full).await;
    assert_eq!(explained["ticks"].as_array().unwrap().len(), 4, "the next one and three: {explained:#}");
    assert_eq!(explained["ticks"][0]["fate"], "upcoming");
    let failed = fleet.until(&["why", "failing"], |ticks| ticks["ticks"][2]["fate"] == "failed").await;
    let tick = failed["ticks"][2]["tick"].as_str().unwrap().to_owned();
    let one = fleet.jobs(&["why", "failing", &tick]).await;
    assert!(one.out.contains("and failed after") && one.out.contains(": the supplier is down"), "{one:?}");
    assert_eq!(one.out.lines().count(), 1, "{one:?}");
    let manual = fleet.jobs(&["why", "manual", "03:00"]).await;
    assert!(manual.out.contains("the job has no schedule"), "{manual:?}");

    let next = fleet.json(&["next", "quick", "--job", "-n", "2"]).await;
    assert_eq!(next["ticks"].as_array().unwrap().len(), 2);
}

async fn runs_a_job(fleet: &Fleet, notifies: Notifies) {
    let asked = Instant::now();
    let ran = fleet.json(&["run", "manual"]).await;
    assert_eq!((&ran["result"], &ran["run"]["outcome"]), (&"ran".into(), &"succeeded".into()));
    assert_eq!((&ran["run"]["by"], &ran["run"]["trigger"]), (&"anna".into(), &"manual".into()));
    if notifies == Notifies::No {
        return;
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let failed = fleet.jobs(&["run", "failing"]).await;
    assert_eq!(failed.code, 1, "a failed run, or a held key: {failed:?}");
    let held = fleet.jobs(&["run", "slow", "--json"]).await;
    assert_eq!((held.code, &held.json()["result"]), (1, &"held".into()));
}

async fn cancels_a_run(fleet: &Fleet, notifies: Notifies) {
    let refused = fleet.jobs(&["cancel", "slow"]).await;
    assert_eq!(refused.code, 2, "without a terminal it must be confirmed: {refused:?}");
    assert!(refused.errors.contains("Pass --yes"), "{refused:?}");
    let asked = Instant::now();
    let cancelled = fleet.json(&["cancel", "slow", "--yes"]).await;
    assert_eq!((&cancelled["result"], &cancelled["run"]["outcome"]), (&"ended".into(), &"cancelled".into()));
    assert_eq!(cancelled["run"]["stopped_by"], "anna");
    if notifies == Notifies::Yes {
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    let nothing = fleet.json(&["cancel", "manual", "--yes"]).await;
    assert_eq!(nothing["result"], "not_running");
}

async fn pauses_and_resumes(fleet: &Fleet) {
    let paused = fleet.json(&["pause", "quick", "--for", "1h", "--reason", "the supplier is down"]).await;
    assert_eq!(paused["pause"]["reason"], "the supplier is down");
    assert!(paused["pause"]["until"].is_string(), "{paused:#}");
    let explained = fleet.json(&["why", "quick"]).await;
    let reason = explained["ticks"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("will be skipped: the job is paused by anna"), "{reason}");
    let is_skipped =
        |ticks: &Value| ticks["ticks"].as_array().unwrap().iter().any(|tick| tick["fate"] == "skipped");
    fleet.until(&["why", "quick"], is_skipped).await;
    assert_eq!(fleet.json(&["resume", "quick"]).await["result"], "resumed");
    assert_eq!(fleet.json(&["resume", "quick"]).await["result"], "not_paused");

    let all = fleet.json(&["pause", "--all", "--yes", "--reason", "maintenance"]).await;
    assert_eq!(all["jobs"], serde_json::json!(["failing", "manual", "quick", "slow"]));
    assert!(fleet.jobs(&["list"]).await.out.contains("ALL JOBS ARE PAUSED by anna: maintenance"));
    assert_eq!(fleet.json(&["resume", "--all", "--yes"]).await["jobs"].as_array().unwrap().len(), 4);
}

async fn lists_and_releases_locks(fleet: &Fleet) {
    let guard = fleet.servers[0].lock("payment:7").ttl("3s").acquire().await.expect("it is free");
    let locks = fleet.json(&["locks"]).await;
    let is_it = |lock: &&Value| lock["key"] == "payment:7";
    let lock = locks["locks"].as_array().unwrap().iter().find(is_it).expect("it is held");
    assert_eq!(lock["kind"], "lock");
    let unlocked = fleet.json(&["unlock", "payment:7", "--yes"]).await;
    assert_eq!(unlocked["held"][0]["fence"], guard.fence());
    tokio::time::timeout(Duration::from_secs(10), guard.lost()).await.expect("its holder learns of it");
    let again = fleet.jobs(&["unlock", "payment:7", "--yes"]).await;
    assert_eq!(again.code, 4, "{again:?}");
}

async fn keeps_an_audit_list(fleet: &Fleet, notifies: Notifies) {
    let audit = fleet.json(&["audit"]).await;
    let actions = audit["actions"].as_array().unwrap();
    assert!(actions.iter().all(|action| action["by"] == "anna"), "{audit:#}");
    let done: Vec<_> = actions.iter().map(|action| action["action"].as_str().unwrap()).collect();
    let runs = if notifies == Notifies::Yes { 3 } else { 1 };
    let wanted =
        [&["unlock", "resume", "pause", "resume", "pause", "cancel"][..], &vec!["run"; runs]].concat();
    assert_eq!(done, wanted, "newest first");
    assert!(fleet.jobs(&["audit"]).await.out.contains("maintenance"));
}

async fn diagnoses(fleet: &Fleet) {
    let found = fleet.jobs(&["doctor", "--json"]).await;
    assert_eq!(found.code, 1, "a job fails: {found:?}");
    let found = found.json();
    let checks = found["checks"].as_array().unwrap();
    let severity =
        |name: &str| checks.iter().find(|check| check["check"] == name).map(|check| &check["severity"]);
    assert_eq!(severity("access"), Some(&"ok".into()), "{found:#}");
    assert_eq!(severity("servers"), Some(&"ok".into()), "{found:#}");
    assert_eq!(severity("jobs"), Some(&"warning".into()), "{found:#}");
}
