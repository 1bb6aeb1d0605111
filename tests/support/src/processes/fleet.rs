//! Real processes that run a scheduler, watched, stopped and killed by the test. See `worker` for what they do.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobs::Timestamp;

use crate::home::Whereabouts;
use crate::worker::MARK;

/// The test in every binary that uses workers where their processes begin.
const ENTRY: &str = "worker_process_runs_its_job";

/// Noisy machines take their time.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a worker is told at its start.
#[derive(Clone)]
pub struct Orders(Vec<(String, String)>);

impl Orders {
    /// A scheduler on this store.
    pub fn serve(place: &impl Whereabouts) -> Self {
        Self::role("serve").on(place)
    }

    pub fn on(self, place: &impl Whereabouts) -> Self {
        let orders = self.set("JOBS_URL", place.url());
        match place.namespace() {
            Some(namespace) => orders.set("JOBS_NAMESPACE", namespace),
            None => orders,
        }
    }

    pub fn role(role: &str) -> Self {
        Self(Vec::new()).set("WORKER_ROLE", role)
    }

    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.0.retain(|(set, _)| set != name);
        self.0.push((name.to_owned(), format!("{value}")));
        self
    }

    /// Starts a process.
    pub fn start(&self) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("this test's binary"));
        command.args([ENTRY, "--exact", "--nocapture", "--test-threads=1"]);
        for name in ["JOBS_URL", "REDIS_URL", "JOBS_NAMESPACE", "JOBS_DISABLE", "JOBS_SCHEDULES"] {
            command.env_remove(name);
        }
        command.envs(self.0.iter().map(|(name, value)| (name, value)));
        Worker::spawn(command)
    }

    /// Starts so many processes, and waits until all of them schedule.
    pub fn start_fleet(&self, count: usize) -> Vec<Worker> {
        let fleet: Vec<_> = (0..count).map(|_| self.start()).collect();
        for worker in &fleet {
            worker.wait_for("ready");
        }
        fleet
    }
}

/// A line that a run reported.
#[derive(Clone, Debug)]
pub struct Step {
    /// `start`, `step` or `end`.
    pub what: String,
    pub server: String,
    /// 1970 for a run by hand.
    pub tick: Timestamp,
    pub fence: i64,
    pub attempt: u32,
    /// By the machine's clock, which is also the store's.
    pub at: Timestamp,
    pub key: String,
    pub note: String,
}

impl Step {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("run ")?.splitn(8, ' ');
        let mut word = || words.next().expect("a whole line");
        Some(Self {
            what: word().to_owned(),
            server: word().to_owned(),
            tick: Timestamp::from_micros(word().parse().expect("a tick")),
            fence: word().parse().expect("a fence"),
            attempt: word().parse().expect("an attempt"),
            at: Timestamp::from_micros(word().parse().expect("an instant")),
            key: word().to_owned(),
            note: word().to_owned(),
        })
    }
}

/// A worker process; killed when dropped.
pub struct Worker {
    process: Child,
    orders: Option<ChildStdin>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Worker {
    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("this test's binary once more");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = told.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, line)) = line.split_once(MARK) {
                    telling.lock().unwrap().push(line.to_owned());
                }
            }
        });
        Self { orders: process.stdin.take(), process, told }
    }

    /// Everything it told so far.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// What it told last.
    pub fn newest(&self) -> String {
        self.told.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// What its runs reported so far.
    pub fn steps(&self) -> Vec<Step> {
        self.told().iter().filter_map(|line| Step::parse(line)).collect()
    }

    /// Its log so far.
    pub fn log(&self) -> Vec<String> {
        self.told().iter().filter_map(|line| line.strip_prefix("log ").map(str::to_owned)).collect()
    }

    /// Waits for a line that begins so, and returns the rest of it.
    pub fn wait_for(&self, beginning: &str) -> String {
        let find = || {
            self.told()
                .iter()
                .find_map(|line| line.strip_prefix(beginning).map(|rest| rest.trim().to_owned()))
        };
        wait_for(&format!("the line \"{beginning}\""), find)
    }

    /// Waits for a line in its log that contains this.
    pub fn wait_for_log(&self, text: &str) -> String {
        wait_for(text, || self.log().into_iter().find(|line| line.contains(text)))
    }

    /// Tells it to do something.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("not closed yet"), "{order}").expect("it listens");
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: &str) {
        send_signal(self.process.id(), signal);
    }

    /// SIGKILL: not one more instruction.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("its status").is_some()
    }

    /// Waits for its end.
    pub fn exit(&mut self, within: Duration) -> ExitStatus {
        wait_for_within(within, "the process's end", || self.process.try_wait().expect("its status"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _already_gone = self.process.kill();
        let _ended = self.process.wait();
        if std::thread::panicking() {
            let told = self.told();
            let newest = told.iter().rev().take(30).rev().map(|line| line.chars().take(300).collect());
            eprintln!("a worker told at last: {:#?}", newest.collect::<Vec<String>>());
        }
    }
}

/// What the runs of all workers reported, by time.
pub fn all_steps(fleet: &[Worker], what: &str) -> Vec<Step> {
    let mut steps: Vec<_> = fleet.iter().flat_map(Worker::steps).filter(|step| step.what == what).collect();
    steps.sort_by_key(|step| step.at);
    steps
}

/// Waits until one of the workers starts a run, and says which.
pub fn first_start(fleet: &[Worker]) -> (usize, Step) {
    wait_for("the first run", || {
        let starts = fleet.iter().enumerate().filter_map(|(index, worker)| {
            worker.steps().into_iter().find(|step| step.what == "start").map(|step| (index, step))
        });
        starts.min_by_key(|(_, step)| step.at)
    })
}

/// A field of a log line.
pub fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    Some(rest.split(' ').next().unwrap_or_default().trim_matches('"').to_owned())
}

/// Asks until there is an answer.
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_for_within(PATIENCE, what, ask)
}

pub fn wait_for_within<T>(within: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + within;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < give_up, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asks until it is so.
pub fn wait_until(what: &str, mut ask: impl FnMut() -> bool) {
    wait_for(what, || ask().then_some(()));
}

pub fn send_signal(process: u32, signal: &str) {
    assert!(try_signal(process, signal), "{signal} to {process}");
}

/// Returns whether there was such a process.
pub fn try_signal(process: u32, signal: &str) -> bool {
    let sent = Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status();
    sent.expect("kill").success()
}
