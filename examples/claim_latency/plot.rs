//! The distribution as an SVG picture: the share of rounds that were won within a time.

use std::fmt::Write;
use std::time::Duration;

use super::figures::Figures;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = 70.0;

/// Distinct also for colour-blind readers; the paper comes first.
const COLOURS: [&str; 5] = ["#555555", "#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// A share and a time.
type Point = (f64, Duration);

pub fn draw(all: &[Figures]) -> String {
    let lines: Vec<Vec<Point>> = all.iter().map(points).collect();
    let times: Vec<_> = lines.iter().flatten().map(|(_, time)| time.as_secs_f64()).collect();
    let axis = Axis::around(&times);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut add = |element: String| writeln!(svg, "{element}").expect("writing to a string succeeds");
    add(format!(
        "<text x=\"{LEFT}\" y=\"30\" font-size=\"17\">Ten workers, one lock, 100 rounds: the winner's time</text>"
    ));
    grid(&axis, &mut add);
    for (index, (figures, points)) in all.iter().zip(&lines).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let dashes = if figures.is_of_the_paper() { " stroke-dasharray=\"6 4\"" } else { "" };
        let path: Vec<_> = points.iter().map(|(share, time)| axis.place(*share, *time)).collect();
        let path = path.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
        add(format!(
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"{dashes}/>"
        ));
        if figures.is_of_the_paper() {
            for (share, time) in points {
                let (x, y) = axis.place(*share, *time);
                add(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"));
            }
        }
    }
    legend(all, &mut add);
    svg + "</svg>\n"
}

/// Steps through every round; of the paper, the points that are known.
fn points(figures: &Figures) -> Vec<Point> {
    if figures.is_of_the_paper() {
        let summary = figures.summary();
        return vec![(0.0, summary.min), (0.5, summary.median), (0.9, summary.p90), (1.0, summary.max)];
    }
    let sorted = figures.sorted();
    let share = |rounds: usize| number(rounds) / number(sorted.len());
    let steps = sorted.iter().enumerate();
    steps.flat_map(|(before, time)| [(share(before), *time), (share(before + 1), *time)]).collect()
}

/// Time to the right, each power of ten as wide as the next; shares upwards.
struct Axis {
    first: i32,
    last: i32,
}

impl Axis {
    fn around(times: &[f64]) -> Self {
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        let most = times.iter().copied().fold(f64::MIN, f64::max);
        let powers = -6..4;
        let first = powers.clone().rev().find(|power| ten_to(*power) <= least).unwrap_or(-6);
        Self { first, last: powers.clone().find(|power| ten_to(*power) >= most).unwrap_or(4).max(first + 1) }
    }

    fn place(&self, share: f64, time: Duration) -> (f64, f64) {
        let along = (time.as_secs_f64().log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        (LEFT + along.max(0.0) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM))
    }
}

fn grid(axis: &Axis, add: &mut impl FnMut(String)) {
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let (_, y) = axis.place(share, Duration::from_secs(1));
        add(line(LEFT, y, WIDTH - RIGHT, y));
        add(text(LEFT - 10.0, y + 5.0, "end", &format!("{} %", quarter * 25)));
    }
    for power in axis.first..=axis.last {
        let time = Duration::from_secs_f64(ten_to(power));
        let (x, bottom) = axis.place(0.0, time);
        add(line(x, TOP, x, bottom));
        add(text(x, bottom + 22.0, "middle", &in_words(time)));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    add(text(middle, HEIGHT - 18.0, "middle", "time from the start of a round to the winner's answer"));
    let half = (TOP + HEIGHT - BOTTOM) / 2.0;
    add(format!(
        "<text x=\"22\" y=\"{half}\" text-anchor=\"middle\" transform=\"rotate(-90 22 {half})\">rounds won by then</text>"
    ));
}

fn legend(all: &[Figures], add: &mut impl FnMut(String)) {
    let mut x = LEFT;
    for (index, figures) in all.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        add(format!("<rect x=\"{x}\" y=\"53\" width=\"22\" height=\"4\" fill=\"{colour}\"/>"));
        add(text(x + 28.0, 60.0, "start", &figures.name));
        x += 50.0 + 9.0 * number(figures.name.chars().count());
    }
}

/// 10 ms of 10ms.
fn in_words(time: Duration) -> String {
    let words = format!("{time:?}");
    let digits = words.find(|c: char| !c.is_ascii_digit()).unwrap_or(words.len());
    format!("{} {}", &words[..digits], words[digits..].replace('µ', "&#181;"))
}

fn ten_to(power: i32) -> f64 {
    10_f64.powi(power)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("few enough points"))
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>")
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>")
}
