//! The file store between processes that race, stop and die.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::store::file::FileStore;
use jobs::store::{ClaimDecision, Record, StoreError, StoreErrorKind};
use jobs::testing::store::Client;
use support::child::{Child, role, tell, wait_for_parent};
use support::folder::TempFolder;
use support::in_place::InPlaceStore;
use support::server::{SUCCEEDED, claim_now, claim_of, random, win, win_and_release};

const ENTRY: &str = "file_store::a_server_alone_wins_every_tick";
pub(super) const KEY: &str = "import";

/// Also where the child processes begin.
#[tokio::test]
async fn a_server_alone_wins_every_tick() {
    let Some((role, folder)) = role() else {
        let folder = TempFolder::new();
        let client = open(folder.path());
        assert_eq!(claim_each(&client, &ticks(10)).await, 10);
        return;
    };
    let folder = Path::new(&folder);
    match role.as_str() {
        "work" => work_for_ever(&open(folder)).await,
        "work in place" => work_for_ever(&Client::new(InPlaceStore { folder: folder.to_owned() })).await,
        "hold the lock" => {
            let lock = fs::File::create(folder.join("a.lock")).unwrap();
            lock.lock().unwrap();
            tell("locked");
            wait_for_parent();
        }
        "announce" => announce_for_ever(&open(folder)).await,
        "claim without room" => {
            let error = open(folder).claim(KEY, &claim_now()).await.expect_err("there is no room to write");
            tell(&format!("{:?}", error.kind()));
        }
        base => {
            let client = open(folder);
            let base = Timestamp::from_micros(base.parse().unwrap());
            tell("ready");
            wait_for_parent();
            tell(&claim_each(&client, &ticks_from(base, 50)).await.to_string());
        }
    }
}

fn open(folder: &Path) -> Client {
    Client::new(FileStore::open(folder, None).unwrap())
}

pub(super) fn ticks(count: i64) -> Vec<Timestamp> {
    ticks_from(Timestamp::now() - Duration::from_secs(60), count)
}

pub(super) fn ticks_from(base: Timestamp, count: i64) -> Vec<Timestamp> {
    (0..count).map(|index| Timestamp::from_micros(base.as_micros() + index)).collect()
}

/// Claims each tick until it is decided; returns how many were won.
pub(super) async fn claim_each(client: &Client, ticks: &[Timestamp]) -> usize {
    let mut wins = 0;
    for tick in ticks {
        let claim = claim_of(*tick, Duration::from_secs(1));
        loop {
            match client.claim(KEY, &claim).await.unwrap().reply.decision {
                ClaimDecision::Won(won) => {
                    wins += 1;
                    client.release(KEY, &won.lease, &SUCCEEDED).await.unwrap();
                }
                ClaimDecision::Held(_) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                ClaimDecision::Taken(_) | ClaimDecision::Superseded(_) => {}
                other => panic!("{other:?}"),
            }
            break;
        }
    }
    wins
}

#[test]
fn ten_processes_that_race_for_fifty_ticks_win_each_once() {
    let folder = TempFolder::new();
    let base = ticks(1)[0].as_micros().to_string();
    let mut servers: Vec<_> = (0..10).map(|_| Child::spawn(ENTRY, &base, folder.path())).collect();
    for server in &mut servers {
        server.expect("ready");
    }
    for server in &mut servers {
        server.go_on();
    }
    let wins = servers.iter_mut().map(|server| server.told().unwrap().parse::<usize>().unwrap());
    assert_eq!(wins.sum::<usize>(), 50);
}

/// The leases are short, so that a killed holder does not delay the next child.
pub(super) async fn work_for_ever(client: &Client) {
    const GAP_MICROS: i64 = 2_000;
    tell("ready");
    loop {
        let now = Timestamp::now().as_micros();
        let tick = Timestamp::from_micros(now - now % GAP_MICROS);
        match work_once(client, tick).await {
            Ok(()) => {}
            Err(error) if error.kind() == StoreErrorKind::TimedOut => {}
            Err(error) => return tell(&format!("error {error}")),
        }
    }
}

async fn work_once(client: &Client, tick: Timestamp) -> Result<(), StoreError> {
    let claim = claim_of(tick, Duration::from_millis(5));
    if let ClaimDecision::Won(won) = client.claim(KEY, &claim).await?.reply.decision {
        tell(&format!("won {} {}", tick.as_micros(), won.lease.fence));
        let lease = won.lease;
        client.extend(KEY, &lease).await?;
        client.release(KEY, &lease, &SUCCEEDED).await?;
    }
    Ok(())
}

/// Everything the children won, and the newest state seen.
#[derive(Default)]
struct Ledger {
    tick_by_fence: BTreeMap<i64, i64>,
    fence: i64,
}

impl Ledger {
    fn enter(&mut self, told: &str) -> Result<(), String> {
        let words: Vec<_> = told.split(' ').collect();
        let ["won", tick, fence] = words[..] else { return Err(told.to_owned()) };
        match self.tick_by_fence.insert(fence.parse().unwrap(), tick.parse().unwrap()) {
            Some(_) => Err(format!("fence {fence} was given twice")),
            None => Ok(()),
        }
    }

    /// `fence`: that of the store.
    fn check(&mut self, fence: i64) -> Result<(), String> {
        let ticks: Vec<_> = self.tick_by_fence.values().collect();
        if let Some([first, second, ..]) = ticks.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("tick {second} was won after tick {first}"));
        }
        let newest = self.tick_by_fence.keys().next_back().copied().unwrap_or(0);
        if fence < self.fence.max(newest) {
            return Err(format!("the fence went back from {} to {}", self.fence.max(newest), fence));
        }
        self.fence = fence;
        Ok(())
    }
}

/// Kills children at random instants; stops at the first broken promise.
pub(super) fn kill_at_random(
    entry: &str,
    role: &str,
    folder: &Path,
    fence: impl Fn() -> Result<i64, String>,
    rounds: u32,
) -> Result<usize, String> {
    let mut ledger = Ledger::default();
    for round in 0..rounds {
        let count = if round % 4 == 3 { 3 } else { 1 };
        let mut children: Vec<_> = (0..count).map(|_| Child::spawn(entry, role, folder)).collect();
        for child in &mut children {
            child.expect("ready");
        }
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(1_000 + random() % 14_000));
            child.kill();
        }
        for told in children.iter_mut().flat_map(Child::rest) {
            ledger.enter(&told).map_err(|why| format!("round {round}: {why}"))?;
        }
        fence().and_then(|fence| ledger.check(fence)).map_err(|why| format!("round {round}: {why}"))?;
    }
    Ok(ledger.tick_by_fence.len())
}

/// The fence in a state file; 0 if there is none.
fn fence_in(state_file: PathBuf) -> impl Fn() -> Result<i64, String> {
    move || match fs::read_to_string(&state_file) {
        Ok(text) => Ok(Record::from_text(&text).map_err(|why| format!("unreadable state: {why}"))?.fence),
        Err(_) => Ok(0),
    }
}

#[test]
fn a_kill_at_any_instant_leaves_the_old_state_or_the_new_one() {
    for folder in [TempFolder::new(), TempFolder::in_memory()] {
        let store = FileStore::open(folder.path(), None).unwrap();
        let wins =
            kill_at_random(ENTRY, "work", folder.path(), fence_in(store.state_file(KEY)), 160).unwrap();
        assert!(wins >= 40, "only {wins} wins in 160 rounds: too few to prove anything");
    }
}

/// The control: the kills above do hit the instants that matter.
#[test]
fn a_store_that_writes_in_place_is_caught() {
    let folder = TempFolder::in_memory();
    let state_file = InPlaceStore { folder: folder.path().to_owned() }.state_file(KEY);
    let broken =
        kill_at_random(ENTRY, "work in place", folder.path(), fence_in(state_file), 300).unwrap_err();
    // Seen after the kill, or by another child whose read met the half-written file.
    assert!(broken.contains("unreadable") || broken.contains("damaged"), "{broken}");
}

#[tokio::test]
async fn a_stopped_process_stalls_only_the_key_it_holds() {
    let folder = TempFolder::new();
    let timeout = Duration::from_millis(300);
    let store = FileStore::open(folder.path(), None).unwrap().with_lock_timeout(timeout);
    let client = Client::new(store.clone());
    let (lease_a, lease_b) = (win(&client, "a").await, win(&client, "b").await);
    let mut holder = Child::spawn(ENTRY, "hold the lock", folder.path());
    holder.expect("locked");
    holder.signal("-STOP");

    let start = Instant::now();
    let (breaks, extend, release, ()) = tokio::join!(
        async { client.break_lock("a", 10).await.err() },
        async { client.extend("a", &lease_a).await.err() },
        async { client.release("a", &lease_a, &SUCCEEDED).await.err() },
        async {
            for _ in 0..5 {
                let asked = Instant::now();
                client.extend("b", &lease_b).await.unwrap();
                win_and_release(&client, "c").await.unwrap().expect("nobody else wants c");
                let looked = client.claim("a", &claim_now()).await.unwrap().reply.decision;
                assert!(matches!(looked, ClaimDecision::Held(_)), "a look needs no lock: {looked:?}");
                assert!(asked.elapsed() < timeout, "b and c took {:?}", asked.elapsed());
            }
        }
    );
    assert!(start.elapsed() < timeout * 3, "{:?}", start.elapsed());
    for error in [breaks, extend, release] {
        let error = error.expect("a is stalled");
        assert_eq!(error.kind(), StoreErrorKind::TimedOut);
        assert!(error.to_string().contains("a.lock") && error.to_string().contains("stopped"), "{error}");
    }

    holder.signal("-CONT");
    holder.go_on();
    holder.rest();
    client.release("a", &lease_a, &SUCCEEDED).await.unwrap();
    win(&client, "a").await;
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_leaves_the_state_alone() {
    let folder = TempFolder::new();
    let store = FileStore::open(folder.path(), None).unwrap();
    let client = Client::new(store.clone());
    win_and_release(&client, KEY).await.unwrap();
    let before = fs::read(store.state_file(KEY)).unwrap();
    Child::spawn_without_room(ENTRY, "claim without room", folder.path()).expect("Full");
    assert_eq!(fs::read(store.state_file(KEY)).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "state and lock, no temporary file");
    win(&client, KEY).await;
}

/// Tells its id once it has announced itself.
async fn announce_for_ever(client: &Client) {
    let server = std::process::id().to_string();
    let about = format!(
        r#"{{"id":"{server}","started":0,"announced":0,"version":"1","jobs":[],"clock_ahead_micros":0,"running":[]}}"#
    );
    client.announce(&server, &about, ANNOUNCED).await.unwrap();
    tell(&server);
    loop {
        tokio::time::sleep(ANNOUNCED / 20).await;
        client.announce(&server, &about, ANNOUNCED).await.unwrap();
    }
}

const ANNOUNCED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn ten_processes_with_heartbeats_are_listed_until_they_are_killed() {
    let folder = TempFolder::new();
    let client = open(folder.path());
    let mut servers: Vec<_> = (0..10).map(|_| Child::spawn(ENTRY, "announce", folder.path())).collect();
    let mut ids: Vec<_> = servers.iter_mut().map(|server| server.told().unwrap()).collect();
    ids.sort();
    let listed = async || {
        let listed = client.servers().await.unwrap().reply;
        listed.into_iter().map(|server| server.id).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ids);

    let mut killed = servers.pop().unwrap();
    killed.kill();
    let death = Instant::now();
    ids.retain(|id| *id != killed.id());
    while listed().await != ids {
        assert!(death.elapsed() < ANNOUNCED * 2, "{:?} are not {ids:?}", listed().await);
        tokio::time::sleep(ANNOUNCED / 20).await;
    }
    assert_eq!(ids.len(), 9);
    // The other servers write their notes to temporary files first.
    let files = fs::read_dir(folder.path().join("servers")).unwrap().map(|file| file.unwrap().path());
    let notes: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|suffix| suffix == "json")).collect();
    assert_eq!(notes.len(), 9, "the note of the killed server is left: {notes:?}");
}
