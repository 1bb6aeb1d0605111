//! Puts together what all processes wrote down.

use std::collections::HashMap;

use support::fleet::Worker;

/// A lease as the store granted it, on the store's clock.
#[derive(Clone, Debug)]
pub struct Held {
    pub fence: i64,
    pub since: i64,
    /// When it certainly still counted: up to here the store may let nobody else in.
    pub until: i64,
    /// When its holder sent the release.
    pub let_go: Option<i64>,
}

/// The words of a line that begins with this one, as numbers where they are numbers.
pub fn words<'a>(line: &'a str, first: &str) -> Option<Vec<&'a str>> {
    let rest = line.strip_prefix(first)?.strip_prefix(' ')?;
    Some(rest.split(' ').collect())
}

pub fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// Every lease that a witness saw, by its token.
pub fn leases<'a>(workers: impl IntoIterator<Item = &'a Worker>) -> HashMap<String, Held> {
    let mut leases: HashMap<String, Held> = HashMap::new();
    for line in workers.into_iter().flat_map(Worker::told) {
        if let Some(word) = words(&line, "won") {
            let [fence, since, until] = [1, 2, 3].map(|index| number(word[index]));
            let held = Held { fence, since, until, let_go: None };
            leases.entry(word[0].to_owned()).or_insert(held);
        } else if let Some(word) = words(&line, "kept") {
            let held = leases.get_mut(word[0]).expect("won before");
            held.until = number(word[1]);
        } else if let Some(word) = words(&line, "letting-go") {
            // From now on it may be over at any moment, also if the answer is never read.
            if let Some(held) = leases.get_mut(word[0]) {
                held.let_go.get_or_insert(number(word[1]));
                held.until = held.until.min(number(word[1]));
            }
        } else if let Some(word) = words(&line, "let-go")
            && let Some(held) = leases.get_mut(word[0])
        {
            held.until = number(word[1]);
        }
    }
    leases
}

/// The largest number of spans that lie over one instant. One that ends where another begins does not touch it.
pub fn most_at_once(spans: impl IntoIterator<Item = (i64, i64)>) -> i32 {
    let mut changes: Vec<_> = spans
        .into_iter()
        .filter(|(from, to)| from < to)
        .flat_map(|(from, to)| [(from, 1), (to, -1)])
        .collect();
    changes.sort_unstable();
    let (mut held, mut most) = (0, 0);
    for (_, change) in changes {
        held += change;
        most = most.max(held);
    }
    most
}

pub fn median(mut values: Vec<i64>) -> i64 {
    assert!(!values.is_empty(), "nothing to take the median of");
    values.sort_unstable();
    values[values.len() / 2]
}
