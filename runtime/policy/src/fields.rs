//! The fields of a cron pattern.

use std::str::FromStr;

use croner::parser::CronParser;

/// A full cycle of the calendar: a pattern that does not match in it never does. Without a limit croner
/// searches to the year 5000, and spends most of a parse on noting those years.
const YEARS: &str = "1900-2299";

const FIELDS: [(&str, u32, u32); 6] = [
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The six fields of a cron text, the second first.
pub(crate) struct Fields(Vec<String>);

impl Fields {
    /// Splits the text into fields. The error is the second half of a sentence.
    pub(crate) fn split(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let pattern = if text.starts_with('@') { expand_nickname(text)? } else { text };
        let mut fields: Vec<_> = pattern.split_whitespace().map(str::to_owned).collect();
        match fields.len() {
            5 => fields.insert(0, "0".to_owned()),
            6 => {}
            count => return Err(format!("expected 5 or 6 fields, found {count}")),
        }
        Ok(Self(fields))
    }

    /// Whether these are fixed times of day: single values, lists and ranges, no `*` and no `/`.
    pub(crate) fn is_fixed(&self) -> bool {
        !self.0[..3].iter().any(|field| field.contains(['*', '/']))
    }

    /// Parses the pattern. The error names the field at fault and, for a number, its range; croner's error
    /// names neither.
    pub(crate) fn pattern(&self) -> Result<croner::Cron, String> {
        let fields = || self.0.iter().enumerate();
        let error = if fields().all(|(index, field)| is_spelled_right(index, field)) {
            match parse_pattern(&self.0) {
                Ok(pattern) => return Ok(pattern),
                Err(error) => error,
            }
        } else {
            String::new()
        };
        let wrong = fields().find(|(index, field)| !is_valid_alone(*index, field));
        Err(wrong.map_or(error, |(index, field)| blame(index, field)))
    }
}

fn expand_nickname(text: &str) -> Result<&'static str, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return Err("expected one of @hourly, @daily, @weekly, @monthly, @yearly".to_owned()),
    })
}

fn parse_pattern(fields: &[String]) -> Result<croner::Cron, String> {
    // croner knows Sunday as 7, but not the last Sunday as `7L`.
    let weekday = fields[5].to_ascii_uppercase().replace("7L", "0L");
    let text = format!("{} {weekday} {YEARS}", fields[..5].join(" "));
    CronParser::new().parse(&text).map_err(|error| error.to_string())
}

fn is_valid_alone(index: usize, field: &str) -> bool {
    let mut fields = vec!["*".to_owned(); FIELDS.len()];
    field.clone_into(&mut fields[index]);
    is_spelled_right(index, field) && parse_pattern(&fields).is_ok()
}

/// croner takes a name in any field (`MON` in the month field is January), drops empty items of a list and
/// ignores a lone `L` for the weekday: each would silently be another schedule than the one meant.
fn is_spelled_right(index: usize, field: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let field = field.to_ascii_uppercase();
    let field = if index == 5 { field.strip_prefix('+').unwrap_or(&field) } else { &field };
    field.split([',', '-', '/', '#']).all(|value| match index {
        _ if value == "*" || is_number(value) => true,
        3 => matches!(value, "?" | "L" | "LW") || value.strip_suffix('W').is_some_and(is_number),
        4 => MONTHS.contains(&value),
        5 => {
            let day = value.strip_suffix('L').unwrap_or(value);
            value == "?" || is_number(day) || WEEKDAYS.contains(&day)
        }
        _ => false,
    })
}

fn blame(index: usize, field: &str) -> String {
    let (name, lowest, highest) = FIELDS[index];
    let bounds = field.split(',').flat_map(|item| item.split(['/', '#']).next().unwrap_or(item).split('-'));
    for value in bounds.filter_map(|value| u32::from_str(value).ok()) {
        if value < lowest || value > highest {
            return format!("{name} {value} is out of range {lowest}–{highest}");
        }
    }
    format!("\"{field}\" is not a valid {name} field")
}
