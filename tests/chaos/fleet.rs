//! The harness's side of eight workers: who serves in which place, behind which proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::testing::check::{Fault, Observed};
use support::fleet::{Orders, Worker, wait_for_within};
use support::proxy::Proxy;

use super::deployment::Deployment;
use super::history::History;

pub const SERVERS: usize = 8;

/// These reach the store through a proxy; the others have a network without faults.
const BEHIND_A_PROXY: std::ops::Range<usize> = 0..5;

/// These have a wall clock that can be set wrong.
const WITH_A_CLOCK: std::ops::Range<usize> = 6..8;

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(40);

pub struct Fleet {
    pub folder: PathBuf,
    pub history: Arc<History>,
    pub places: Vec<Place>,
    /// Servers that were asked to end, and when.
    leaving: Vec<(String, Worker, Instant)>,
}

/// The place of one server: when it ends, the next one takes it.
pub struct Place {
    number: usize,
    generation: u32,
    url: String,
    interval: Duration,
    pub name: String,
    pub worker: Worker,
    pub proxy: Option<Proxy>,
    /// The file with the offset of its wall clock.
    clock: Option<PathBuf>,
    /// All processes that were in this place.
    processes: Vec<u32>,
    /// Whether its process, or its network, has a fault already.
    pub process_fault: bool,
    pub network_fault: bool,
}

impl Fleet {
    /// Starts all servers, and waits until they schedule.
    pub fn start(
        folder: &Path,
        history: Arc<History>,
        deployment: &Deployment,
        runtime: &tokio::runtime::Runtime,
    ) -> Self {
        let place = |number| {
            let late = Duration::from_secs(3);
            let port = deployment.port().filter(|_| BEHIND_A_PROXY.contains(&number));
            let proxy = port.map(|port| runtime.block_on(Proxy::before(port, late)));
            let url =
                proxy.as_ref().map_or_else(|| deployment.url(), |proxy| deployment.url_by(proxy.port()));
            // The clock of a store without a server is that of the processes.
            let has_clock = WITH_A_CLOCK.contains(&number) && !deployment.is_local();
            let clock = has_clock.then(|| folder.join(format!("s{number}.clock")));
            Place::start(folder, (number, deployment.kind.interval()), url, (proxy, clock))
        };
        let places: Vec<_> = (0..SERVERS).map(place).collect();
        let fleet = Self { folder: folder.to_owned(), history, places, leaving: Vec::new() };
        fleet.wait_until_ready();
        fleet
    }

    pub fn wait_until_ready(&self) {
        for place in &self.places {
            wait_for_within(PATIENCE, &format!("{} to be ready", place.name), || {
                place.worker.told().iter().any(|line| line == "ready").then_some(())
            });
        }
    }

    pub fn began(&self, server: &str, fault: Fault) {
        self.history.note_about(server, Observed::FaultBegan(fault));
    }

    pub fn ended(&self, server: &str, fault: Fault) {
        self.history.note_about(server, Observed::FaultEnded(fault));
    }

    /// SIGKILL. The place stays empty until [`replace`](Self::replace).
    pub fn kill(&mut self, number: usize) {
        let place = &mut self.places[number];
        self.history.note_about(&place.name, Observed::FaultBegan(Fault::Kill));
        self.history.note_about(&place.name, Observed::ServerEnded);
        place.worker.kill();
    }

    /// SIGTERM, and another server at once.
    pub fn deploy(&mut self, number: usize) {
        let old = self.places[number].name.clone();
        self.began(&old, Fault::Deploy);
        self.places[number].worker.signal("-TERM");
        let worker = self.replace(number);
        self.leaving.push((old, worker, Instant::now()));
    }

    /// Starts the next server in a place, and returns the previous one.
    pub fn replace(&mut self, number: usize) -> Worker {
        self.places[number].next(&self.folder)
    }

    /// Looks after servers that are asked to end.
    pub fn reap(&mut self) {
        let (history, mut stay) = (self.history.clone(), Vec::new());
        for (name, mut worker, since) in self.leaving.drain(..) {
            if !worker.has_ended() && since.elapsed() < PATIENCE {
                stay.push((name, worker, since));
                continue;
            }
            if !worker.has_ended() {
                eprintln!("{name} did not end within {PATIENCE:?} of a SIGTERM");
            }
            history.note_about(&name, Observed::FaultEnded(Fault::Deploy));
            history.note_about(&name, Observed::ServerEnded);
            drop(worker);
        }
        self.leaving = stay;
    }

    pub fn wait_until_reaped(&mut self) {
        while !self.leaving.is_empty() {
            self.reap();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends all servers.
    pub fn shut_down(mut self) {
        for place in &self.places {
            place.worker.signal("-TERM");
        }
        for place in &mut self.places {
            let give_up = Instant::now() + PATIENCE;
            while !place.worker.has_ended() && Instant::now() < give_up {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Place {
    fn start(
        folder: &Path,
        (number, interval): (usize, Duration),
        url: String,
        (proxy, clock): (Option<Proxy>, Option<PathBuf>),
    ) -> Self {
        if let Some(clock) = &clock {
            std::fs::write(clock, "+0").expect("a file for the clock");
        }
        let name = format!("s{number}g0");
        let worker = start_worker(folder, &name, (&url, interval), clock.as_deref());
        let processes = vec![worker.id()];
        let (process_fault, network_fault) = (false, false);
        Self {
            number,
            generation: 0,
            url,
            interval,
            name,
            worker,
            proxy,
            clock,
            processes,
            process_fault,
            network_fault,
        }
    }

    fn next(&mut self, folder: &Path) -> Worker {
        self.generation += 1;
        self.name = format!("s{}g{}", self.number, self.generation);
        let worker = start_worker(folder, &self.name, (&self.url, self.interval), self.clock.as_deref());
        self.processes.push(worker.id());
        std::mem::replace(&mut self.worker, worker)
    }

    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Sets the wall clock wrong by so many seconds.
    pub fn set_clock(&self, offset: i64) {
        let clock = self.clock.as_ref().expect("a clock");
        // Renamed, so that no reader finds half of it.
        let new = clock.with_extension("new");
        std::fs::write(&new, format!("{offset:+}")).expect("the clock's file");
        std::fs::rename(&new, clock).expect("the clock's file");
    }
}

/// The library that shifts clocks leaves its shared memory behind when a process is killed.
impl Drop for Place {
    fn drop(&mut self) {
        for process in &self.processes {
            for name in ["faketime_shm", "sem.faketime_sem"] {
                let _was_not_there = std::fs::remove_file(format!("/dev/shm/{name}_{process}"));
            }
        }
    }
}

fn start_worker(
    folder: &Path,
    name: &str,
    (url, interval): (&str, Duration),
    clock: Option<&Path>,
) -> Worker {
    let mut orders = Orders::role("serve").set("WORKER_NAME", name).set("WORKER_URL", url);
    orders = orders.set("WORKER_FOLDER", folder.display()).set("WORKER_INTERVAL", interval.as_secs());
    if let Some(clock) = clock {
        orders =
            orders.set("LD_PRELOAD", faketime().display()).set("FAKETIME_TIMESTAMP_FILE", clock.display());
        for name in
            ["FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC", "FAKETIME_NO_CACHE", "NO_FAKE_STAT"]
        {
            orders = orders.set(name, 1);
        }
    }
    orders.start()
}

/// The library that shifts the wall clock of a process.
fn faketime() -> PathBuf {
    let folders =
        ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let mut libraries = folders.iter().map(|folder| Path::new(folder).join("libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).expect("the package `faketime` is installed")
}
