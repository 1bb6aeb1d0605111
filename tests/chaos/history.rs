//! The history of a process: one observation per line, appended by one write each, so that a kill loses nothing that was
//! written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobs::testing::check::{Fault, LeaseRef, Observation, Observed};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::clock;

/// The file that a process appends to.
pub struct History {
    server: Arc<str>,
    file: File,
}

impl History {
    pub fn create(folder: &Path, server: &str) -> Self {
        Self { server: server.into(), file: append_to(&folder.join(format!("{server}.history"))) }
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// Appends an observation of this process.
    pub fn note(&self, what: Observed) {
        self.note_about(&self.server, what);
    }

    /// Appends an observation about another process; an empty name stands for the store.
    pub fn note_about(&self, server: &str, what: Observed) {
        self.note_at(clock::steady(), server, what);
    }

    /// Notes an overload of the store that began at this instant and ends now.
    pub fn note_slow_store(&self, begun: u64) {
        self.note_at(begun, "probe", Observed::FaultBegan(Fault::Overload));
        self.note_about("probe", Observed::FaultEnded(Fault::Overload));
    }

    fn note_at(&self, at: u64, server: &str, what: Observed) {
        append(&self.file, &Observation { at, server: server.into(), what });
    }

    /// Notes when this process does not get a processor in time, for as long as the condition holds.
    pub fn watch_load(&self, condition: impl Fn() -> bool) {
        const PAUSE: Duration = Duration::from_millis(20);
        const LATE: u64 = 120_000;
        while condition() {
            let begun = clock::steady();
            std::thread::sleep(PAUSE);
            if clock::steady() - begun > LATE {
                self.note_at(begun, &self.server, Observed::FaultBegan(Fault::Overload));
                self.note(Observed::FaultEnded(Fault::Overload));
            }
        }
    }
}

fn append(mut file: &File, line: &impl Serialize) {
    let mut line = serde_json::to_string(line).expect("plain data");
    line.push('\n');
    file.write_all(line.as_bytes()).expect("room for the history");
}

pub fn append_to(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A worker's own history and the report of its events, for people.
pub struct Journal {
    pub folder: PathBuf,
    pub history: History,
    events: File,
    swaps: File,
}

static JOURNAL: OnceLock<Journal> = OnceLock::new();

impl Journal {
    pub fn open(folder: &Path, server: &str) -> &'static Self {
        JOURNAL.get_or_init(|| Self {
            folder: folder.to_owned(),
            history: History::create(folder, server),
            events: append_to(&folder.join(format!("{server}.events"))),
            swaps: append_to(&folder.join(format!("{server}.swaps"))),
        })
    }

    pub fn get() -> &'static Self {
        JOURNAL.get().expect("a worker")
    }

    pub fn note_swap(&self, swap: &impl Serialize) {
        append(&self.swaps, swap);
    }

    /// A line for people.
    pub fn report(&self, text: &str) {
        let mut line = String::new();
        writeln!(line, "{} {text}", clock::steady()).expect("a string");
        (&self.events).write_all(line.as_bytes()).expect("room for a report");
    }
}

/// The lines of all files of a folder with this extension.
pub fn read_lines<T: DeserializeOwned>(folder: &Path, extension: &str) -> Vec<T> {
    let mut all = Vec::new();
    for file in files(folder, extension) {
        let text = std::fs::read_to_string(file).expect("a file of lines");
        // A process that was killed may have left half a line.
        all.extend(text.lines().filter_map(|line| serde_json::from_str::<T>(line).ok()));
    }
    all
}

/// What servers reported about the key and the tick that a message names.
pub fn reports_about(folder: &Path, key: &str, message: &str) -> Vec<String> {
    let tick = message.split_once("tick ").and_then(|(_, rest)| rest.split(' ').next());
    let Some(tick) = tick.filter(|tick| tick.ends_with('Z')) else { return Vec::new() };
    let mut found = Vec::new();
    for file in files(folder, "events") {
        let text = std::fs::read_to_string(&file).expect("a report");
        let about = text.lines().filter(|line| line.contains(&format!(" {key} ")) && line.contains(tick));
        let server = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(about.map(|line| format!("{server} {line}")));
    }
    found
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("the folder of the run").flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// Writes a history that is known as a whole.
pub fn write_all(folder: &Path, name: &str, observations: &[Observation]) {
    let file = append_to(&folder.join(format!("{name}.history")));
    for observation in observations {
        append(&file, observation);
    }
}

/// All histories of a folder, in order.
pub fn read_all(folder: &Path) -> Vec<Observation> {
    let mut all: Vec<Observation> = read_lines(folder, "history");
    all.sort_by_key(|observation| observation.at);
    end_servers_after_their_last_words(&mut all);
    all
}

/// The harness notes a kill before it sends the signal; the process may have written a few more lines.
fn end_servers_after_their_last_words(all: &mut [Observation]) {
    let mut last = BTreeMap::new();
    for observation in all.iter() {
        let of_the_harness = matches!(
            observation.what,
            Observed::ServerEnded | Observed::FaultBegan(_) | Observed::FaultEnded(_)
        );
        if !of_the_harness {
            last.insert(observation.server.clone(), observation.at);
        }
    }
    for observation in all.iter_mut().filter(|observation| observation.what == Observed::ServerEnded) {
        let last = last.get(&observation.server).copied().unwrap_or_default();
        observation.at = observation.at.max(last + 1);
    }
    all.sort_by_key(|observation| observation.at);
}

/// A lease at work: notes its steps, and its end when it is dropped.
pub struct Held(pub LeaseRef);

impl Held {
    pub fn begin(key: &str, fence: i64) -> Self {
        Self::begin_run(key, fence, None, (1, 0))
    }

    pub fn begin_run(
        key: &str,
        fence: i64,
        tick: Option<jobs::Timestamp>,
        (attempt, retry): (u32, u32),
    ) -> Self {
        let lease = LeaseRef { key: key.into(), fence };
        let began = Observed::Began { lease: lease.clone(), tick, attempt, retry, store_time: clock::wall() };
        Journal::get().history.note(began);
        Self(lease)
    }

    pub fn step(&self) {
        Journal::get().history.note(Observed::Stepped(self.0.clone()));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        Journal::get().history.note(Observed::Ended(self.0.clone()));
    }
}
