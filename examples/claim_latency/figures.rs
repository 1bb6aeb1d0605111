//! The measured times, and those of the paper.

use std::fmt::Write;
use std::time::Duration;

pub struct Figures {
    pub name: String,
    /// How long each round's winner took. Of the paper only four points are known; see `of_the_paper`.
    pub times: Vec<Duration>,
    /// Rounds won by each worker.
    pub wins: Vec<usize>,
}

pub struct Summary {
    pub mean: Duration,
    pub median: Duration,
    pub min: Duration,
    pub p90: Duration,
    pub max: Duration,
}

impl Summary {
    fn of_the_paper() -> Self {
        let millis = Duration::from_millis;
        Self { mean: millis(134), median: millis(111), min: millis(94), p90: millis(147), max: millis(899) }
    }
}

impl Figures {
    /// Single times are not published.
    pub fn of_the_paper() -> Self {
        let wins = vec![9, 8, 11, 12, 7, 18, 14, 0, 7, 14];
        Self { name: "the paper".to_owned(), times: Vec::new(), wins }
    }

    pub fn is_of_the_paper(&self) -> bool {
        self.times.is_empty()
    }

    pub fn sorted(&self) -> Vec<Duration> {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted
    }

    pub fn summary(&self) -> Summary {
        if self.is_of_the_paper() {
            return Summary::of_the_paper();
        }
        let sorted = self.sorted();
        // The smallest time within which so many percent of the rounds were won.
        let within = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
        let rounds = u32::try_from(sorted.len()).expect("few enough rounds");
        Summary {
            mean: sorted.iter().sum::<Duration>() / rounds,
            median: within(50),
            min: sorted[0],
            p90: within(90),
            max: sorted[sorted.len() - 1],
        }
    }
}

/// One column for the paper and one for each store.
pub fn table(all: &[Figures]) -> String {
    let mut table = String::new();
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        write!(table, "  {name:<10}").expect("writing to a string succeeds");
        for figures in all {
            write!(table, "{:>17}", cell(figures)).expect("writing to a string succeeds");
        }
        table.push('\n');
    };
    row("", &|figures| figures.name.clone());
    row("mean", &|figures| seconds(figures.summary().mean));
    row("median", &|figures| seconds(figures.summary().median));
    row("min", &|figures| seconds(figures.summary().min));
    row("p90", &|figures| seconds(figures.summary().p90));
    row("max", &|figures| seconds(figures.summary().max));
    for worker in 0..all[0].wins.len() {
        row(&format!("worker {}", worker + 1), &|figures| format!("{} won", figures.wins[worker]));
    }
    table
}

fn seconds(time: Duration) -> String {
    format!("{:.4} s", time.as_secs_f64())
}
