//! Faults on a fleet of the user's.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Fleet;
use super::check::{Fault, Observed, Trace};
use super::simulation::draw::{FaultTargets, draw_server_fault};
use super::simulation::faults::Injector;
use super::simulation::recorder::Recorder;
use crate::util::random::seeded::{SeededRandom, seed_this_thread};

/// Faults on a [`Fleet`], drawn from a seed. See [`Fleet::chaos`].
#[must_use = "nothing happens before `run_for`"]
pub struct Chaos<'a> {
    fleet: &'a mut Fleet,
    seed: u64,
}

impl Fleet {
    /// Puts faults on the servers while time passes: they are killed and started again, stopped, blocked, cut off, deployed anew;
    /// their clocks are set; their messages to the store are lost, delayed, reordered and repeated. The store keeps its
    /// writes. What your jobs do must be right under all of that.
    ///
    /// The same seed has the same faults at the same instants, on Tokio's paused clock, if it is called right after the start
    /// and your jobs draw no random numbers. A test that panics prints the seed.
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use std::time::Duration;
    /// # use jobs::{Job, testing::Fleet};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let ran = Arc::new(Mutex::new(Vec::new()));
    /// let note = {
    ///     let ran = ran.clone();
    ///     move || {
    ///         let ran = ran.clone();
    ///         let job = Job::builder("note").every("1m").ttl("10s").run(move |run| {
    ///             ran.lock().unwrap().push(run.tick());
    ///             async {}
    ///         });
    ///         job.build().unwrap()
    ///     }
    /// };
    /// let mut fleet = Fleet::of(3).job(note).start().await.unwrap();
    /// fleet.chaos(7).run_for(Duration::from_secs(1800)).await;
    ///
    /// let ran = ran.lock().unwrap();
    /// let twice = ran.iter().enumerate().any(|(index, tick)| ran[..index].contains(tick));
    /// assert!(!twice, "no tick starts twice: {ran:?}");
    /// # }
    /// ```
    pub fn chaos(&mut self, seed: u64) -> Chaos<'_> {
        self.chaos_seed = Some(seed);
        seed_this_thread(seed);
        Chaos { fleet: self, seed }
    }
}

impl Chaos<'_> {
    /// Lets time pass under faults, then ends all of them and starts servers again that were killed. Returns the number of
    /// faults of each kind.
    pub async fn run_for(self, duration: Duration) -> BTreeMap<Fault, u64> {
        let Self { fleet, seed } = self;
        let (random, end) = (&mut SeededRandom::new(seed, "chaos"), Instant::now() + duration);
        let recorder = Recorder::new(fleet.clock(), Trace::default());
        let targets = FaultTargets { servers: fleet.servers.len(), ttl: fleet.shortest_ttl() };
        let mut injector = Injector::new(fleet, recorder.clone());
        loop {
            let next = Instant::now() + random.millis(100, 30_000);
            injector.run_until(next.min(end)).await;
            if next >= end {
                break;
            }
            injector.inject(&draw_server_fault(random, &targets)).await;
        }
        injector.heal().await;
        let mut counts = BTreeMap::new();
        for observation in recorder.finish().observations {
            if let Observed::FaultBegan(fault) = observation.what {
                *counts.entry(fault).or_default() += 1;
            }
        }
        counts
    }
}

/// A test that fails names the seed.
impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(seed) = self.chaos_seed.filter(|_| std::thread::panicking()) {
            eprintln!("the chaos of this fleet had the seed {seed}: `fleet.chaos({seed})` repeats it");
        }
    }
}
