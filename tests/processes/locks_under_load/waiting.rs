//! A hundred waiters for one lock, in ten processes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use jobs::Jobs;
use jobs::testing::store::Client;

use super::ground::Ground;
use super::judge::{median, number, words};
use super::process::{sleep_millis, start, witnessed};
use super::witness::now;
use support::fleet::{Worker, wait_for_within};
use support::hand::Hand;
use support::worker::{orders, tell};

const KEY: &str = "payment:123";
const PROCESSES: usize = 10;
const WAITERS: usize = 10;
const TTL: &str = "60s";

pub async fn process() {
    let jobs = witnessed().await;
    let wait = |jobs: &Jobs| {
        let lock = jobs.lock(KEY).ttl(TTL);
        async move {
            let guard = lock.acquire().await.expect("the lock, however long it takes");
            tell(&format!("got {} {}", guard.fence(), now()));
            sleep_millis(10).await; // long enough for all to hear who has it
            guard.release().await.expect("held until then");
        }
    };
    let waiters: Vec<_> = (0..WAITERS).map(|_| tokio::spawn(wait(&jobs))).collect();
    tell("ready");
    for waiter in waiters {
        waiter.await.expect("its turn");
    }
    tell("finished");
    orders().recv().await;
}

/// How many looks and swaps Redis has answered. A look gets the record and the lock. A swap gets the head of the record, and the lock;
/// one that is refused then gets the record, and the lock's remaining time.
fn requests(hand: &Hand) -> i64 {
    let stats: String = hand.say("INFO commandstats");
    let of = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| number(line.split(',').next().expect("a number")))
    };
    let (looks, swaps) = ((of("get") - of("pttl") - of("getrange")) / 2, of("getrange"));
    looks + swaps
}

/// A handover from one lease to the next.
struct Handover {
    /// From the sending of the release until the next holder has its answer.
    took: i64,
    /// Requests that the next holder's process sent in that time.
    asked: i64,
    /// How long the last of them was on its way.
    trip: i64,
}

fn handovers(fleet: &[Worker]) -> Vec<Handover> {
    let mut fence_of = HashMap::new();
    let (mut won, mut let_go, mut asked) = (Vec::new(), HashMap::new(), vec![Vec::new(); fleet.len()]);
    for (index, worker) in fleet.iter().enumerate() {
        for line in worker.told() {
            if let Some(word) = words(&line, "won") {
                let [fence, sent, answered] = [1, 4, 5].map(|at| number(word[at]));
                fence_of.insert(word[0].to_owned(), fence);
                won.push((fence, index, sent, answered));
                asked[index].push(sent);
            } else if let Some(word) = words(&line, "asked") {
                asked[index].push(number(word[0]));
            } else if let Some(word) = words(&line, "letting-go") {
                let_go.entry(word[0].to_owned()).or_insert(number(word[1]));
            }
        }
    }
    let released: HashMap<i64, i64> = let_go.into_iter().map(|(token, at)| (fence_of[&token], at)).collect();
    won.sort_unstable();
    let handover = |pair: &[(i64, usize, i64, i64)]| {
        let ((before, ..), (_, index, sent, answered)) = (pair[0], pair[1]);
        let released = released[&before];
        let asked = asked[index].iter().filter(|at| (released..=sent).contains(at)).count();
        Handover {
            took: answered - released,
            asked: i64::try_from(asked).expect("few"),
            trip: answered - sent,
        }
    };
    won.windows(2).map(handover).collect()
}

/// The time of a ping, again and again: what a trip to the store takes on this machine just now.
fn pings(ground: &Ground, over: &AtomicBool) -> Vec<i64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of(ground.open());
        let mut trips = Vec::new();
        while !over.load(Ordering::SeqCst) {
            let sent = now();
            client.ping().await.expect("an answer");
            trips.push(now() - sent);
            sleep_millis(5).await;
        }
        trips
    })
}

#[test]
fn hundred_waiters_all_get_the_lock_with_few_requests() {
    for ground in Ground::all("waiting") {
        all_get_the_lock_on(&ground);
    }
}

fn all_get_the_lock_on(ground: &Ground) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let jobs = runtime.block_on(start(ground.open()));
    let guard = runtime.block_on(jobs.lock(KEY).ttl(TTL).acquire()).expect("a free lock");
    let fleet = ground.orders("wait").start_fleet(PROCESSES);
    let asked = |worker: &Worker| worker.told().iter().filter(|line| line.starts_with("asked")).count();
    for worker in &fleet {
        // Once, and again when it listens.
        wait_for_within(Duration::from_secs(30), "its question", || (asked(worker) >= 2).then_some(()));
    }
    let told_before: usize = fleet.iter().map(asked).sum();
    let hand = match ground {
        Ground::Redis(server) => Some(Hand::on(server)),
        _ => None,
    };
    let count = || hand.as_ref().map(requests);

    let idle = Duration::from_secs(5);
    let (begun, before) = (std::time::Instant::now(), count());
    sleep(idle);
    let (idle, after) = (begun.elapsed().as_secs_f64(), count());
    let told: usize = fleet.iter().map(asked).sum::<usize>() - told_before;

    let over = AtomicBool::new(false);
    let trips = std::thread::scope(|scope| {
        let pinging = scope.spawn(|| pings(ground, &over));
        runtime.block_on(guard.release()).expect("held until now");
        for worker in &fleet {
            let finished = || (worker.newest() == "finished").then_some(());
            wait_for_within(Duration::from_secs(120), "ten turns", finished);
        }
        over.store(true, Ordering::SeqCst);
        pinging.join().expect("answers")
    });
    let in_all = count();
    let got = fleet.iter().flat_map(Worker::told).filter(|line| line.starts_with("got ")).count();
    let handovers = handovers(&fleet);
    let of = |measure: fn(&Handover) -> i64| median(handovers.iter().map(measure).collect());
    let (took, asked, trip, ping) =
        (of(|one| one.took), of(|one| one.asked), of(|one| one.trip), median(trips));
    println!(
        "{}: {got} waiters in {PROCESSES} processes asked {told} times in {idle:.1} s of waiting; the median handover took \
         {took} µs and {asked} claim(s) after the release; a claim took {trip} µs, a ping {ping} µs",
        ground.name(),
    );
    assert_eq!(got, PROCESSES * WAITERS, "every one gets it");
    assert_eq!(handovers.len(), got - 1, "from each to the next");
    // Only the first in line of each process asks, every 1–2 s, if the store tells; else every 250–500 ms at most.
    let a_second = if matches!(ground, Ground::Files(_)) { 4.0 } else { 1.0 };
    let most = PROCESSES as f64 * (a_second * idle + 1.0);
    assert!(told as f64 <= most, "{told} questions in {idle:.1} s");
    assert!(told >= PROCESSES, "the control: they do wait, and ask now and then: {told}");
    if let (Some(before), Some(after), Some(in_all)) = (before, after, in_all) {
        // Redis itself counts no others than these, and now and then the word of a process that it is there.
        let idle_requests = after - before;
        let handed = handovers.len() as f64;
        let each = (in_all - after) as f64 / handed;
        println!(
            "Redis answered {idle_requests} requests meanwhile, and {each:.1} for each of {handed} handovers"
        );
        assert!(idle_requests as f64 <= most + (PROCESSES + 2) as f64, "{idle_requests} requests");
        // The release; the look of the first in line of each process; the swap of the winner, and of those who looked
        // before it had won; and who comes next in the winner's line.
        assert!(each <= (2 * PROCESSES + 3) as f64, "{each} requests for each handover");
        // The release, a look and a swap, each a trip to the store. Counted: other work on this machine makes trips longer,
        // but not more. And timed, against trips of the same requests in the same crowd, which a lone ping is not.
        assert!(1 + asked < 4, "{asked} requests after the release");
        assert!(took < 5 * trip, "{took} µs, and one trip takes {trip} µs");
    }
    runtime.block_on(jobs.shutdown());
}
