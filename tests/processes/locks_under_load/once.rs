//! Deliveries of the same messages to many processes, which fail at random and are killed in the middle of the work.

use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jobs::locks::{OnceError, OnceOutcome};
use jobs::{Jobs, Run};

use super::ground::{Ground, open_here, repetitions};
use super::judge::{number as count, words};
use super::process::{random, sleep_millis, start};
use support::fleet::{Orders, Worker, wait_for_within};
use support::folder::TempFolder;
use support::worker::{number, orders, setting, tell};

const PROCESSES: usize = 20;
const DELIVERIES: usize = 3;

/// Long enough that only a killed process loses its lease, and short enough to wait for that.
const TTL: Duration = Duration::from_secs(4);

/// What the work does to the world outside the store: one line for each time that it was done. A line is appended in one
/// write, so that lines of several processes do not mix, and none is lost with its process.
struct Effects(PathBuf);

impl Effects {
    fn of(folder: &Path) -> Self {
        Self(folder.join("effects"))
    }

    fn append(&self, id: &str) {
        let file = OpenOptions::new().append(true).create(true).open(&self.0);
        file.and_then(|mut file| file.write_all(format!("{id}\n").as_bytes())).expect("a log");
    }

    /// How often each was done.
    fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for id in std::fs::read_to_string(&self.0).expect("a log").lines() {
            *counts.entry(id.to_owned()).or_default() += 1;
        }
        counts
    }
}

fn id(index: usize) -> String {
    format!("webhook:{index}")
}

/// The work on one message.
struct Handler {
    effects: Effects,
    begun: std::cell::Cell<i64>,
}

impl Handler {
    async fn handle(&self, id: &str) -> Result<(), &'static str> {
        self.begun.set(self.begun.get() + 1);
        tell("attempt");
        sleep_millis(random(4)).await;
        let dies = self.begun.get() == number("DIES_AT", 0);
        if dies && setting("DIES").as_deref() == Some("before") {
            die();
        }
        if random(100) < 25 && setting("DIES").as_deref() != Some("after") {
            return Err("on purpose");
        }
        self.effects.append(id);
        if dies {
            die();
        }
        Ok(())
    }
}

/// As by kill -9: not one more instruction of this process.
fn die() -> ! {
    let _sent = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    unreachable!("killed");
}

/// Delivers each message three times, in random order, and those that failed or were in progress again.
pub async fn process() {
    let jobs = start(open_here()).await;
    let folder = PathBuf::from(setting("FOLDER").expect("a folder"));
    let handler = Handler { effects: Effects::of(&folder), begun: std::cell::Cell::new(0) };
    let ids = usize::try_from(number("IDS", 0)).expect("a number");
    let mut queue: Vec<_> = (0..DELIVERIES).flat_map(|_| (0..ids).map(id)).collect();
    queue.sort_by_cached_key(|_| random(u64::MAX));
    let mut queue = VecDeque::from(queue);
    let mut orders = orders();
    tell("ready");
    orders.recv().await;
    let (mut done, mut busy, mut failed) = (0, 0, 0);
    while let Some(id) = queue.pop_front() {
        match deliver(&jobs, &handler, &id).await {
            Delivered::Ran => tell("ran"),
            Delivered::Done => done += 1,
            Delivered::Again { in_progress } => {
                if in_progress {
                    busy += 1;
                    sleep_millis(5).await;
                } else {
                    failed += 1;
                }
                queue.push_back(id);
            }
        }
    }
    tell(&format!("finished {done} {busy} {failed}"));
    orders.recv().await;
}

enum Delivered {
    Ran,
    Done,
    Again { in_progress: bool },
}

async fn deliver(jobs: &Jobs, handler: &Handler, id: &str) -> Delivered {
    let work = async |_: Run| handler.handle(id).await;
    if setting("PLAIN_LOCK").is_some() {
        return match jobs.lock(id).ttl(TTL).run(work).await.expect("a lock, sooner or later") {
            Ok(()) => Delivered::Ran,
            Err(_) => Delivered::Again { in_progress: false },
        };
    }
    match jobs.once(id).ttl(TTL).run(work).await {
        Ok(OnceOutcome::Ran(())) => Delivered::Ran,
        Ok(OnceOutcome::AlreadyDone(_)) => Delivered::Done,
        Ok(OnceOutcome::InProgress(_)) => Delivered::Again { in_progress: true },
        Err(OnceError::Failed(_)) => Delivered::Again { in_progress: false },
        // A request was not answered in time on a busy machine. Nothing was started, or nothing was done.
        Err(OnceError::Lock(error)) => {
            tell(&format!("trouble {error}"));
            Delivered::Again { in_progress: true }
        }
        Err(other) => panic!("{other:?}"),
    }
}

struct Fleet {
    orders: Orders,
    folder: TempFolder,
    ground: Ground,
}

impl Fleet {
    fn new(ids: usize) -> Self {
        let (ground, folder) = (Ground::redis(), TempFolder::new());
        let orders = ground.orders("deliver").set("WORKER_IDS", ids);
        Self { orders: orders.set("WORKER_FOLDER", folder.path().display()), folder, ground }
    }

    fn effects(&self) -> BTreeMap<String, usize> {
        Effects::of(self.folder.path()).counts()
    }

    /// What one more delivery of each finds.
    fn are_done(&self, ids: usize) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let jobs = start(self.ground.open()).await;
            let mut done = 0;
            for index in 0..ids {
                let delivery =
                    jobs.once(id(index)).wait("20s").run(|_| async { Err::<(), _>("not yet done") });
                if let Ok(OnceOutcome::AlreadyDone(_)) = delivery.await {
                    done += 1;
                }
            }
            jobs.shutdown().await;
            done
        })
    }
}

/// What each counted, summed up: done before, in progress, failed.
fn sums(fleet: &[Worker], within: Duration) -> [i64; 3] {
    let mut sums = [0; 3];
    for worker in fleet {
        let finished = || Some(worker.newest()).filter(|line| line.starts_with("finished "));
        let line = wait_for_within(within, "all deliveries", finished);
        let word = words(&line, "finished").expect("the line");
        for (sum, word) in sums.iter_mut().zip(word) {
            *sum += count(word);
        }
    }
    sums
}

fn times(line: &str, workers: &[Worker]) -> usize {
    workers.iter().flat_map(Worker::told).filter(|told| told == line).count()
}

#[test]
fn message_delivered_many_times_is_handled_once() {
    let ids = repetitions("JOBS_TEST_IDS", 200);
    let messages = Fleet::new(ids);
    // Every other process is killed in one of its first attempts, before the work has any effect.
    let orders_of = |index: usize| match index % 2 {
        0 => messages.orders.clone().set("WORKER_DIES", "before").set("WORKER_DIES_AT", 1 + random(3)),
        _ => messages.orders.clone(),
    };
    let mut fleet: Vec<_> = (0..PROCESSES).map(|index| orders_of(index).start()).collect();
    for worker in &fleet {
        worker.wait_for("ready");
    }
    for worker in &mut fleet {
        worker.order("go");
    }
    let mut killed = Vec::new();
    for index in (0..PROCESSES).step_by(2) {
        // Where there was nothing left to begin, there was nothing to die in.
        let within = Duration::from_secs(120 + ids as u64 / 5);
        let died = wait_for_within(within, "its death, or its end", || {
            let is_finished = fleet[index].newest().starts_with("finished ");
            if is_finished { Some(false) } else { fleet[index].has_ended().then_some(true) }
        });
        if died {
            let mut next = messages.orders.start();
            next.order("go");
            killed.push(std::mem::replace(&mut fleet[index], next));
        }
    }
    let [done, in_progress, failed] = sums(&fleet, Duration::from_secs(120 + ids as u64 / 5));
    let [ran, attempts] = ["ran", "attempt"].map(|line| times(line, &fleet) + times(line, &killed));
    let effects = messages.effects();
    println!(
        "{ids} messages delivered {DELIVERIES} times to each of {PROCESSES} processes, and {} times again: {attempts} attempts, \
         {failed} failed, {} killed in the middle; handled {ran}, done before {done}, in progress {in_progress}",
        in_progress + failed,
        killed.len(),
    );
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "handled more than once: {twice:?}");
    assert_eq!(effects.len(), ids, "every one is handled");
    assert_eq!(ran, ids, "and says so to one delivery");
    let others = ids * DELIVERIES * PROCESSES - times("ran", &fleet);
    assert_eq!(usize::try_from(done), Ok(others), "the others are told that it is done");
    assert!(failed > 0 && killed.len() >= 3, "{failed} failed, {} killed", killed.len());
    assert!(attempts >= ids + killed.len(), "what failed was tried again");
    assert_eq!(messages.are_done(ids), ids, "and all of them are marked");
}

/// The limit that the documentation states: the work was done, and nobody was told.
#[test]
fn message_is_handled_again_if_its_handler_died_before_the_mark() {
    let messages = Fleet::new(1);
    let orders = messages.orders.clone().set("WORKER_DIES", "after").set("WORKER_DIES_AT", 1);
    let mut first = orders.start();
    first.order("go");
    first.exit(Duration::from_secs(60));
    assert_eq!(messages.effects(), BTreeMap::from([(id(0), 1)]));
    let mut second = messages.orders.start();
    second.order("go");
    let second = [second];
    let [done, ..] = sums(&second, Duration::from_secs(60));
    assert_eq!((times("ran", &second), done), (1, 2));
    assert_eq!(messages.effects(), BTreeMap::from([(id(0), 2)]), "at least once, and not more than need be");
}

#[test]
fn plain_lock_handles_a_message_once_per_delivery() {
    let messages = Fleet::new(10);
    let mut fleet = messages.orders.clone().set("WORKER_PLAIN_LOCK", 1).start_fleet(4);
    for worker in &mut fleet {
        worker.order("go");
    }
    sums(&fleet, Duration::from_secs(60));
    let effects = messages.effects();
    println!("the control: a plain lock handled 10 messages {} times", effects.values().sum::<usize>());
    assert!(
        effects.values().all(|times| *times > 1),
        "the control does it once, so nothing is measured: {effects:?}"
    );
}
