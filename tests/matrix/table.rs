//! The tables of the matrix, as they stand in the guide.

use std::fmt::Write;

use crate::catalogue::Entry;
use crate::checks::{COLUMNS, Cells, Outcome};

type Row<'a> = (&'a Entry, Result<Outcome, String>);

/// The first line of the table of servers that work, and of the one of those that are too old.
fn heads() -> [String; 2] {
    [format!("| server | {} |", COLUMNS.join(" | ")), "| too old | a start is refused with |".to_owned()]
}

fn rule(head: &str) -> String {
    format!("|{}", "---|".repeat(head.matches('|').count() - 1))
}

/// A row, or what kept it from having figures.
fn line((entry, outcome): &Row<'_>) -> String {
    match outcome {
        Ok(Outcome { label, cells: Cells::Figures(figures), .. }) => {
            format!("| {label} | {} |", figures.join(" | "))
        }
        Ok(Outcome { label, cells: Cells::Refused(message), .. }) => format!("| {label} | {message} |"),
        Err(problem) => format!("| {} | **not run**: {problem} |", entry.name),
    }
}

pub fn progress(entry: &Entry, outcome: &Result<Outcome, String>) -> String {
    let said = match outcome {
        Ok(Outcome { cells: Cells::Figures(figures), label, .. }) => {
            format!("{label}: {}", figures.join(", "))
        }
        Ok(Outcome { cells: Cells::Refused(message), label, .. }) => format!("{label}, refused: {message}"),
        Err(problem) => format!("{}: {problem}", entry.name),
    };
    format!("{said} ({})", entry.origin)
}

pub fn all(rows: &[Row<'_>]) -> String {
    let is_too_old = |row: &&Row<'_>| row.0.expected == crate::catalogue::Expectation::TooOld;
    let mut text = String::new();
    for (head, too_old) in heads().into_iter().zip([false, true]) {
        let lines: Vec<_> = rows.iter().filter(|row| is_too_old(row) == too_old).map(line).collect();
        if !lines.is_empty() {
            writeln!(text, "{head}\n{}\n{}\n", rule(&head), lines.join("\n")).expect("a string");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{CATALOGUE, Expectation};

    const PAGE: &str = include_str!("../../runtime/src/docs/stores.md");

    /// The rows of the table with this head, if the page has it.
    fn rows<'a>(page: &'a str, head: &str) -> Option<Vec<Vec<&'a str>>> {
        let mut lines = page.lines().skip_while(|line| *line != head).skip(1);
        (lines.next()? == rule(head)).then_some(())?;
        let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect();
        Some(lines.take_while(|line| line.starts_with('|')).map(cells).collect())
    }

    /// Checks the form of the tables, whose figures come from `./tests/run --matrix`.
    fn check(page: &str) -> Result<(), String> {
        for (head, expected) in heads().iter().zip([Expectation::Works, Expectation::TooOld]) {
            let rows = rows(page, head).ok_or(format!("there is no table {head}"))?;
            let entries: Vec<_> = CATALOGUE.iter().filter(|entry| entry.expected == expected).collect();
            if rows.len() != entries.len() {
                return Err(format!("{} rows for {} servers below {head}", rows.len(), entries.len()));
            }
            for (row, entry) in rows.iter().zip(entries) {
                let is_of_line = row[0].strip_prefix(entry.name).is_some_and(|rest| rest.starts_with('.'));
                let is_figure =
                    |cell: &&str| *cell == "–" || cell.parse::<u32>().is_ok_and(|number| number > 0);
                let is_complete = match expected {
                    Expectation::Works => row.len() == COLUMNS.len() + 1 && row[1..].iter().all(is_figure),
                    Expectation::TooOld => row.len() == 2 && row[1].contains("newer"),
                };
                if !(is_of_line && is_complete) {
                    return Err(format!("not a row of {}: {row:?}", entry.name));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn tables_of_the_guide_have_the_form_that_the_matrix_prints() {
        check(PAGE).unwrap_or_else(|problem| panic!("runtime/src/docs/stores.md: {problem}"));
    }

    fn printed(change: impl Fn(&Entry, usize, &mut Outcome)) -> String {
        let outcome = |(number, entry): (usize, &'static Entry)| {
            let cells = match entry.expected {
                Expectation::Works => Cells::Figures(vec!["7".to_owned(); COLUMNS.len()]),
                Expectation::TooOld => Cells::Refused("use another, or newer".to_owned()),
            };
            let mut outcome = Outcome { label: format!("{}.1", entry.name), cells, failures: Vec::new() };
            change(entry, number, &mut outcome);
            (entry, Ok(outcome))
        };
        all(&CATALOGUE.iter().enumerate().map(outcome).collect::<Vec<_>>())
    }

    /// The control: what is printed is accepted, and a failure, another server or a missing row is not.
    #[test]
    fn tables_of_another_form_are_noticed() {
        let whole = printed(|_, _, _| ());
        assert_eq!(check(&whole), Ok(()));
        let other = printed(|_, number, outcome| {
            if number == 3 {
                outcome.label = "Redis 1.0.0".to_owned();
            }
        });
        let failed = printed(|_, number, outcome| {
            if number == 3 {
                outcome.cells = Cells::Figures(vec!["**6 of 7**".to_owned(); COLUMNS.len()]);
            }
        });
        let last = whole.trim_end().lines().last().expect("a row");
        for page in [other, failed, whole.replace(last, ""), whole.replace("contract", "kit"), String::new()]
        {
            assert!(check(&page).is_err(), "{page}");
        }
    }
}
