//! Slots under load: holders are stopped past their ttl and killed all the time, and never do more than five hold one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jobs::fleet::HeldLock;
use jobs::fleet::LeaseKind;
use jobs::locks::LockError;
use jobs::testing::store::Client;

use super::ground::{Ground, repetitions};
use super::judge::{leases, most_at_once, number as micros, words};
use super::process::{client, random, sleep_millis, witnessed};
use super::witness::now;
use support::fleet::Worker;
use support::worker::{number, orders, tell};

const KEY: &str = "external-api";
const SLOTS: u32 = 5;
const TTL: Duration = Duration::from_secs(1);
const PROCESSES: usize = 16;
const HURT: usize = 15;

/// A machine with other things to do takes its time.
const AT_LEAST_A_SECOND: usize = 20;

pub async fn process() {
    let jobs = witnessed().await;
    let mut orders = orders();
    let slots = jobs.semaphore(KEY, SLOTS).ttl(TTL);
    tell("ready");
    orders.recv().await;
    for _ in 0..number("ACQUISITIONS", 0) {
        let guard = slots.clone().acquire().await.expect("a slot, however long it takes");
        tell("got");
        sleep_millis(1 + random(5)).await;
        match guard.release().await {
            Ok(()) | Err(LockError::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    tell("finished");
    orders.recv().await;
}

/// The control: asks how many hold one, and takes one if they are fewer, in two steps, on its own clock.
pub async fn naive_process() {
    let mut client = client().await;
    let mut orders = orders();
    tell("ready");
    orders.recv().await;
    for round in 0..number("ACQUISITIONS", 0) {
        let slot = format!("{}-{round}", std::process::id());
        loop {
            let mut drop_expired = redis::cmd("ZREMRANGEBYSCORE");
            let _dropped: u32 =
                drop_expired.arg(KEY).arg(0).arg(now()).query_async(&mut client).await.expect("an answer");
            let held: u32 = redis::cmd("ZCARD").arg(KEY).query_async(&mut client).await.expect("an answer");
            if held < SLOTS {
                break;
            }
            sleep_millis(1).await;
        }
        let mut add = redis::cmd("ZADD");
        let until = now() + 1_000_000;
        let _added: u32 =
            add.arg(KEY).arg(until).arg(&slot).query_async(&mut client).await.expect("an answer");
        let since = now();
        sleep_millis(1 + random(5)).await;
        tell(&format!("held {since} {}", now()));
        let mut remove = redis::cmd("ZREM");
        let _removed: u32 = remove.arg(KEY).arg(&slot).query_async(&mut client).await.expect("an answer");
    }
    tell("finished");
    orders.recv().await;
}

struct Fleet<'a> {
    ground: &'a Ground,
    wanted: usize,
    working: Vec<Member>,
    dead: Vec<Worker>,
    /// Verified by the last line of each: it held a slot when it was stopped.
    hurt: usize,
}

struct Member {
    worker: Worker,
    wanted: usize,
    stopped: Option<Stopped>,
}

struct Stopped {
    ends: Instant,
    kills: bool,
    while_it_said: String,
}

impl<'a> Fleet<'a> {
    fn start(ground: &'a Ground, wanted: usize) -> Self {
        let start = |_| Member { worker: start(ground, wanted), wanted, stopped: None };
        let working: Vec<_> = (0..PROCESSES).map(start).collect();
        for member in &working {
            member.worker.wait_for("ready");
        }
        Self { ground, wanted, working, dead: Vec::new(), hurt: 0 }
    }

    fn go(&mut self) {
        for member in &mut self.working {
            member.worker.order("go");
        }
    }

    fn is_finished(&self) -> bool {
        self.working.iter().all(|member| member.stopped.is_none() && member.worker.newest() == "finished")
    }

    /// Stops a process that holds a slot.
    fn stop_a_holder(&mut self) {
        let first = usize::try_from(random(PROCESSES as u64)).expect("small");
        let candidates = (0..PROCESSES).map(|index| (first + index) % PROCESSES);
        let holds = |member: &Member| {
            let newest = member.worker.newest();
            member.stopped.is_none() && ["won ", "kept ", "got"].iter().any(|word| newest.starts_with(word))
        };
        let Some(index) = candidates.into_iter().find(|index| holds(&self.working[*index])) else { return };
        let member = &mut self.working[index];
        member.worker.signal("-STOP");
        sleep(Duration::from_millis(20));
        if !holds(member) {
            // It was faster.
            return member.worker.signal("-CONT");
        }
        let kills = random(2) == 0;
        let lasts =
            if kills { Duration::from_millis(50) } else { TTL + Duration::from_millis(200 + random(300)) };
        let while_it_said = member.worker.newest();
        member.stopped = Some(Stopped { ends: Instant::now() + lasts, kills, while_it_said });
    }

    /// Wakes those that were stopped for long enough, and puts others in the place of those that are killed.
    fn wake_or_kill(&mut self) {
        for index in 0..PROCESSES {
            let member = &mut self.working[index];
            let is_due = |stopped: &mut Stopped| stopped.ends <= Instant::now();
            let Some(stopped) = member.stopped.take_if(is_due) else { continue };
            if member.worker.newest() == stopped.while_it_said {
                self.hurt += 1;
            }
            if !stopped.kills {
                member.worker.signal("-CONT");
                continue;
            }
            member.worker.kill();
            let got = member.worker.told().iter().filter(|line| *line == "got").count();
            let wanted = member.wanted - got;
            let mut next = Member { worker: start(self.ground, wanted), wanted, stopped: None };
            next.worker.order("go");
            self.dead.push(std::mem::replace(member, next).worker);
        }
    }

    fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.dead.iter().chain(self.working.iter().map(|member| &member.worker))
    }

    fn count(&self, line: &str) -> usize {
        self.workers().map(|worker| worker.told().iter().filter(|told| *told == line).count()).sum()
    }
}

fn start(ground: &Ground, acquisitions: usize) -> Worker {
    ground.orders("semaphore").set("WORKER_ACQUISITIONS", acquisitions).start()
}

fn slots_of(held: Vec<HeldLock>) -> Vec<HeldLock> {
    held.into_iter()
        .filter(|held| held.key == KEY && matches!(held.kind, Some(LeaseKind::Slot { .. })))
        .collect()
}

/// The store's list, over and over: how often, and the most that held a slot in one of them.
fn watch(ground: &Ground, over: &AtomicBool) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of(ground.open());
        let (mut looks, mut most) = (0, 0);
        while !over.load(Ordering::SeqCst) {
            if let Ok(answer) = client.locks().await {
                looks += 1;
                most = most.max(slots_of(answer.reply).len());
            }
            sleep_millis(20).await;
        }
        (looks, most)
    })
}

#[test]
fn at_most_five_processes_hold_a_slot() {
    for ground in Ground::all("slots") {
        never_do_more_than_five_hold_a_slot_on(&ground);
    }
}

fn never_do_more_than_five_hold_a_slot_on(ground: &Ground) {
    let wanted = repetitions("JOBS_TEST_ACQUISITIONS", 150);
    let mut fleet = Fleet::start(ground, wanted);
    let over = AtomicBool::new(false);
    let (took, looks, most_listed) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(ground, &over));
        let begun = Instant::now();
        fleet.go();
        let give_up = begun + Duration::from_secs((60 + wanted * PROCESSES / AT_LEAST_A_SECOND) as u64);
        let mut next = begun;
        while !fleet.is_finished() && Instant::now() < give_up {
            fleet.wake_or_kill();
            let stopped = fleet.working.iter().filter(|member| member.stopped.is_some()).count();
            // Some must be left to do the work; and in a long run some of it is undisturbed.
            if stopped < 4 && Instant::now() >= next && fleet.hurt < HURT.max(wanted / 10) {
                fleet.stop_a_holder();
                next = Instant::now() + Duration::from_millis(100);
            }
            sleep(Duration::from_millis(5));
        }
        let took = begun.elapsed();
        over.store(true, Ordering::SeqCst);
        let (looks, most) = watching.join().expect("a list now and then");
        (took, looks, most)
    });
    assert!(fleet.is_finished(), "not every process got its {} slots in {took:?}", fleet.wanted);

    let got = fleet.count("got");
    let leases = leases(fleet.workers());
    let most = most_at_once(leases.values().map(|held| (held.since, held.until)));
    let rate = got as f64 / took.as_secs_f64();
    println!(
        "{}: {got} slots taken by {PROCESSES} processes in {took:.1?}, {rate:.0} a second; {} holders stopped past their \
         ttl or killed ({} killed); at most {most} at once by the leases, {most_listed} in {looks} looks at the list",
        ground.name(),
        fleet.hurt,
        fleet.dead.len(),
    );
    assert_eq!(got, wanted * PROCESSES, "every process gets its slots");
    assert!(fleet.hurt >= HURT, "only {} holders were stopped or killed", fleet.hurt);
    assert!(leases.len() >= got, "each of them is on record");
    assert_eq!(most, i32::try_from(SLOTS).expect("small"), "all slots are used, and no more");
    assert!(looks > 20 && (2..=SLOTS as usize).contains(&most_listed), "{most_listed} in {looks} looks");
    all_slots_are_back(ground);
}

/// Whoever was killed last has the ttl, and no longer.
fn all_slots_are_back(ground: &Ground) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let jobs = super::process::start(ground.open()).await;
        let left = slots_of(jobs.locks().await.expect("an answer"));
        let longest = left.iter().filter_map(|held| held.holder.remaining).max();
        assert!(longest.is_none_or(|longest| longest <= TTL), "{left:?}");
        tokio::time::sleep(TTL).await;
        assert_eq!(slots_of(jobs.locks().await.expect("an answer")), []);
        let mut guards = Vec::new();
        for _ in 0..SLOTS {
            let slot = jobs.semaphore(KEY, SLOTS).ttl("30s").try_acquire().await.expect("an answer");
            guards.push(slot.expect("a free slot"));
        }
        let sixth = jobs.semaphore(KEY, SLOTS).try_acquire().await.expect("an answer");
        assert!(sixth.is_none());
        drop(guards);
        jobs.shutdown().await;
    });
}

#[test]
fn naive_counter_admits_more_than_five() {
    let ground = Ground::redis();
    let orders = ground.orders("count, then add").set("WORKER_ACQUISITIONS", 40);
    let mut fleet = orders.start_fleet(PROCESSES);
    for worker in &mut fleet {
        worker.order("go");
    }
    for worker in &fleet {
        worker.wait_for("finished");
    }
    let told: Vec<_> = fleet.iter().flat_map(Worker::told).collect();
    let spans = told.iter().filter_map(|line| words(line, "held"));
    let most = most_at_once(spans.map(|word| (micros(word[0]), micros(word[1]))));
    println!("the control: counted and then added, {most} hold one of {SLOTS} at once");
    assert!(
        most > i32::try_from(SLOTS).expect("small"),
        "the control keeps to its number, so nothing is measured"
    );
}
