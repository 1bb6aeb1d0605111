//! Tables and colours. Colours are left out where the output is not a terminal.

use anstyle::{AnsiColor, Reset, Style};
use serde_json::Value;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const NOTABLE: Style = AnsiColor::Yellow.on_default();
pub(crate) const ACTIVE: Style = AnsiColor::Cyan.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();
pub(crate) const RESET: Reset = Reset;

/// A text in one style.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        // A line break or an escape sequence in a stored text must not change the terminal.
        let text: String = text.into().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { text, style }
    }

    pub(crate) fn painted(&self) -> String {
        self.padded(0)
    }

    pub(crate) fn padded(&self, width: usize) -> String {
        let Self { text, style } = self;
        let gap = width.saturating_sub(text.chars().count());
        format!("{style}{text}{style:#}{:gap$}", "")
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, PLAIN)
    }
}

/// Rows under headings, in columns as wide as their longest text.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    headings: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(headings: [&'static str; N]) -> Self {
        Self { headings, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let headings = self.headings.map(|heading| Cell::new(heading, FAINT));
        let mut widths = [0; N];
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let line = |row: &[Cell; N]| {
            let cells = row.iter().zip(widths).enumerate();
            let cells = cells.map(|(at, (cell, width))| cell.padded(if at + 1 == N { 0 } else { width }));
            cells.collect::<Vec<_>>().join("  ")
        };
        std::iter::once(&headings).chain(&self.rows).map(line).collect()
    }

    /// Prints the table, or this sentence if it has no rows.
    pub(crate) fn print(&self, empty: &str) {
        if self.rows.is_empty() {
            return anstream::println!("{empty}");
        }
        self.lines().iter().for_each(|line| anstream::println!("{line}"));
    }
}

/// Prints a JSON document.
pub(crate) fn print_json(document: &Value) {
    println!("{document:#}");
}

/// `name  value`, with the name in a column.
pub(crate) fn print_field(name: &str, value: impl Into<Cell>) {
    anstream::println!("{FAINT}{name:14}{FAINT:#}{}", value.into().painted());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_text_and_control_characters_are_left_out() {
        let mut table = Table::new(["KEY", "STATE"]);
        table.add(["import-products".into(), "ok".into()]);
        table.add(["a".into(), Cell::new("bad\x1b[2J\n", PLAIN)]);
        let plain: Vec<_> =
            table.lines().iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(plain, ["KEY              STATE", "import-products  ok", "a                bad [2J "]);
    }
}
