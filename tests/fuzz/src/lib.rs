//! The driver of the fuzz targets.
//!
//! A target is a plain function over bytes, which returns a mistake or the kind of the case. The driver checks every case of
//! the target's corpus (`corpus/*.txt`, one case per line), then many mutations of them, always the same ones. It reports a
//! panic or a mistake with the shortest case that still shows it, which then becomes a line of the corpus.
//!
//! `JOBS_TEST_CASES=100` checks a hundred times as many mutations, `JOBS_TEST_SEED=7` other ones.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

mod mutation;
mod source;

pub use source::Source;

/// A case that takes longer counts as endless.
const ENDLESS: Duration = Duration::from_secs(60);

/// Bounds the search for the shortest case.
const TIME_TO_SHORTEN: Duration = Duration::from_secs(20);

/// The kind of a case that kept all promises, as `"accepted"`; or the promise that it broke.
pub type Verdict = Result<&'static str, String>;

/// What the cases of a fuzz target are made from.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The name of the corpus.
    pub corpus: &'a str,
    /// Words that mutations insert, separated by spaces.
    pub words: &'a str,
    /// The number of mutations.
    pub cases: u32,
    /// Kinds of cases. Each must be among a hundred cases: a target that never gets beyond the first check shows nothing.
    pub kinds: &'a [&'a str],
}

impl Target<'_> {
    /// Checks all cases.
    ///
    /// # Panics
    ///
    /// If a check finds a mistake or panics, or a kind of case is missing.
    pub fn run(&self, check: impl Fn(&[u8]) -> Verdict) {
        let factor: u32 = setting("JOBS_TEST_CASES", 1);
        let seed: u64 = setting("JOBS_TEST_SEED", 0);
        let begun = Instant::now();
        let tally = self.search(seed, self.cases.saturating_mul(factor), &check);
        let tally = tally.unwrap_or_else(|mistake| panic!("{mistake}"));
        let (corpus, total, took) = (self.corpus, tally.values().sum::<u32>(), begun.elapsed());
        println!("{corpus}: {total} cases in {took:.1?}, {tally:?}");
        for kind in self.kinds {
            let count = tally.get(kind).copied().unwrap_or_default();
            assert!(count >= total / 100, "{corpus}: only {count} of {total} cases are {kind}");
        }
    }

    /// Checks that the target finds a mistake in a deliberately wrong variant: the control of the target.
    ///
    /// # Panics
    ///
    /// If it finds none.
    pub fn finds(&self, mistake: &str, check: impl Fn(&[u8]) -> Verdict) {
        match self.search(0, self.cases, &check) {
            Ok(_) => panic!("{}: the target does not find {mistake}", self.corpus),
            Err(found) => println!("found {mistake}: {found}"),
        }
    }

    fn search(
        &self,
        seed: u64,
        cases: u32,
        check: &dyn Fn(&[u8]) -> Verdict,
    ) -> Result<BTreeMap<&'static str, u32>, String> {
        let corpus = read_corpus(self.corpus);
        let words: Vec<_> = self.words.split_whitespace().collect();
        let watchdog = Watchdog::start();
        let mut tally = BTreeMap::new();
        let mut mutations = mutation::Mutations::new(Source::new(seed), &corpus, &words);
        for case in corpus.iter().cloned().chain((0..cases).map(|_| mutations.next_case())) {
            match watchdog.check(&case, check) {
                Ok(kind) => *tally.entry(kind).or_default() += 1,
                Err(_) => return Err(self.shortest(case, &watchdog, check)),
            }
        }
        Ok(tally)
    }

    /// Removes parts of a case for as long as it still fails, and describes what is left.
    fn shortest(&self, case: Vec<u8>, watchdog: &Watchdog, check: &dyn Fn(&[u8]) -> Verdict) -> String {
        let (mut shortest, begun) = (case, Instant::now());
        let mut size = shortest.len().div_ceil(2);
        while size > 0 {
            let mut begin = 0;
            while begin < shortest.len() && begun.elapsed() < TIME_TO_SHORTEN {
                let mut shorter = shortest.clone();
                shorter.drain(begin..(begin + size).min(shortest.len()));
                if watchdog.check(&shorter, check).is_err() {
                    shortest = shorter;
                } else {
                    begin += size;
                }
            }
            size /= 2;
        }
        let mistake = watchdog.check(&shortest, check).expect_err("it failed before");
        format!("{}: {mistake}\n  the case: {}", self.corpus, line_of(&shortest))
    }
}

/// A number in the environment.
fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("{name} is not a number")),
        Err(_) => default,
    }
}

/// The cases of a corpus: its lines, without comments (`// `). A line that begins with `hex:` has bytes that are no text.
///
/// # Panics
///
/// If the corpus does not exist, or is empty.
pub fn read_corpus(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases: Vec<_> = text.lines().filter(|line| !line.starts_with("// ")).map(case_of).collect();
    assert!(!cases.is_empty(), "{} has no cases", path.display());
    cases
}

fn case_of(line: &str) -> Vec<u8> {
    let Some(digits) = line.strip_prefix("hex:") else { return line.as_bytes().to_vec() };
    let byte =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    digits.as_bytes().chunks(2).map(|pair| byte(pair).expect("pairs of digits after `hex:`")).collect()
}

/// A case as a line of the corpus.
fn line_of(case: &[u8]) -> String {
    match std::str::from_utf8(case) {
        Ok(text) if !text.contains(['\n', '\r', '\0']) => text.to_owned(),
        _ => case.iter().fold("hex:".to_owned(), |line, byte| format!("{line}{byte:02x}")),
    }
}

/// The case that is being checked, and since when.
type Checked = Option<(Instant, Vec<u8>)>;

/// Ends the process, and prints the case, if a check does not end.
struct Watchdog(Arc<Mutex<Checked>>);

impl Watchdog {
    fn start() -> Self {
        let running = Arc::new(Mutex::new(Checked::None));
        let watched = Arc::downgrade(&running);
        std::thread::spawn(move || {
            while let Some(running) = watched.upgrade() {
                if let Some((since, case)) = &*running.lock().unwrap_or_else(PoisonError::into_inner)
                    && since.elapsed() > ENDLESS
                {
                    eprintln!("the case does not end: {}", line_of(case));
                    std::process::abort();
                }
                drop(running);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Self(running)
    }

    fn set(&self, running: Checked) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Checks a case; a panic is a mistake.
    fn check(&self, case: &[u8], check: &dyn Fn(&[u8]) -> Verdict) -> Verdict {
        self.set(Some((Instant::now(), case.to_vec())));
        let verdict = catch_unwind(AssertUnwindSafe(|| check(case)));
        self.set(None);
        verdict.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it panics: {}", text.unwrap_or("without a message")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target<'_> = Target { corpus: "urls", words: "needle", cases: 2_000, kinds: &[] };

    fn text(case: &[u8]) -> String {
        String::from_utf8_lossy(case).into_owned()
    }

    #[test]
    fn mistake_and_panic_are_reported_with_the_shortest_case() {
        for fails in [|| Err("it is there".to_owned()), || panic!("it is there")] {
            let check = |case: &[u8]| if text(case).contains("needle") { fails() } else { Ok("other") };
            let report = TARGET.search(0, TARGET.cases, &check).expect_err("a needle");
            assert!(report.contains("it is there") && report.ends_with("the case: needle"), "{report}");
        }
    }

    #[test]
    fn every_search_has_the_same_cases() {
        let cases = || {
            let seen = Mutex::new(Vec::new());
            let check = |case: &[u8]| {
                seen.lock().unwrap().push(case.to_vec());
                Ok("any")
            };
            TARGET.search(3, 100, &check).expect("no mistake");
            seen.into_inner().unwrap()
        };
        assert_eq!(cases(), cases());
    }

    #[test]
    #[should_panic(expected = "does not find nothing at all")]
    fn control_that_is_not_found_fails() {
        TARGET.finds("nothing at all", |_| Ok("any"));
    }

    #[test]
    #[should_panic(expected = "cases are rare")]
    fn kind_that_never_occurs_fails() {
        Target { kinds: &["rare"], ..TARGET }.run(|_| Ok("any"));
    }

    #[test]
    fn case_survives_its_line() {
        for case in [&b"plain"[..], b"\xff\x00", b"two\nlines"] {
            assert_eq!(case_of(&line_of(case)), case);
        }
    }
}
