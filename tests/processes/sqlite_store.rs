//! The SQLite store between processes that race and die.
#![cfg(unix)]

use std::path::Path;

use jobs::Timestamp;
use jobs::store::sqlite::SqliteStore;
use jobs::testing::store::Client;
use support::child::{Child, role, tell, wait_for_parent};
use support::folder::TempFolder;

use super::file_store::{KEY, claim_each, kill_at_random, ticks, ticks_from, work_for_ever};

const ENTRY: &str = "sqlite_store::a_server_alone_wins_every_tick";

fn open(folder: &Path) -> Client {
    Client::new(SqliteStore::open(folder.join("jobs.db"), None).expect("a database"))
}

/// Also where the child processes begin.
#[tokio::test]
async fn a_server_alone_wins_every_tick() {
    let Some((role, folder)) = role() else {
        let folder = TempFolder::in_memory();
        assert_eq!(claim_each(&open(folder.path()), &ticks(10)).await, 10);
        return;
    };
    let folder = Path::new(&folder);
    if role == "work" {
        return work_for_ever(&open(folder)).await;
    }
    let (base, own) = role.split_once(' ').unwrap_or((&role, ""));
    let base = Timestamp::from_micros(base.parse().expect("a tick"));
    tell("ready");
    wait_for_parent();
    // Only now, so that the processes also race to create the database.
    let folder = folder.join(own);
    std::fs::create_dir_all(&folder).expect("a folder");
    tell(&claim_each(&open(&folder), &ticks_from(base, 50)).await.to_string());
}

/// The number of wins of ten processes that race for fifty ticks. `own` names the folder of a process.
fn race(folder: &Path, own: impl Fn(usize) -> String) -> usize {
    let base = ticks(1)[0].as_micros();
    let spawn = |number| Child::spawn(ENTRY, format!("{base} {}", own(number)).trim_end(), folder);
    let mut servers: Vec<_> = (0..10).map(spawn).collect();
    for server in &mut servers {
        server.expect("ready");
    }
    for server in &mut servers {
        server.go_on();
    }
    servers.iter_mut().map(|server| server.told().unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn ten_processes_that_create_a_database_and_race_for_fifty_ticks_win_each_once() {
    let folder = TempFolder::in_memory();
    assert_eq!(race(folder.path(), |_| String::new()), 50);
}

/// The control.
#[test]
fn ten_processes_with_a_database_each_win_every_tick_ten_times() {
    let folder = TempFolder::in_memory();
    assert_eq!(race(folder.path(), |number| number.to_string()), 500);
}

/// The control of these kills is `file_store::a_store_that_writes_in_place_is_caught`.
#[test]
fn a_kill_at_any_instant_leaves_the_old_row_or_the_new_one() {
    let folder = TempFolder::in_memory();
    let path = folder.path().join("jobs.db");
    let fence = || {
        let database = rusqlite::Connection::open(&path).map_err(|error| error.to_string())?;
        let sql = "SELECT max(fence) FROM job_lock WHERE job_name = ?1";
        let fence = database.query_row(sql, [KEY], |row| row.get::<_, Option<i64>>(0));
        Ok(fence.map_err(|error| error.to_string())?.unwrap_or_default())
    };
    drop(SqliteStore::open(&path, None).expect("a database"));
    let wins = kill_at_random(ENTRY, "work", folder.path(), fence, 100).unwrap();
    assert!(wins >= 25, "only {wins} wins in 100 rounds: too few to prove anything");
}
