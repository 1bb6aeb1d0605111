//! Values as parts of a statement.
//!
//! A message with several statements can have no parameters. Texts are written in hexadecimal, so they mean the same in
//! every `sql_mode` and character set, and nothing in them can end a literal.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::store::record::columns::hexadecimal;

/// Returns a text in ASCII as a literal.
pub(crate) fn text(value: &str) -> String {
    format!("_ascii X'{}'", hexadecimal(value))
}

/// Returns a text in ASCII as a literal; `NULL` for none.
pub(crate) fn optional(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), text)
}

/// What keys may contain stays as it is, and `#`, which is in the names of records beside a job's.
const ESCAPED: AsciiSet =
    NON_ALPHANUMERIC.remove(b'#').remove(b'.').remove(b'_').remove(b':').remove(b'/').remove(b'-');

/// Returns a key or a name as a literal of its column: in ASCII, with everything that a key of a job may not contain
/// percent-encoded. So names differ wherever their bytes do: by case, by spaces at the end, by U+0000.
pub(crate) fn name(value: &str) -> String {
    text(&encoded(value))
}

pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, &ESCAPED).to_string()
}

/// Reads a name out of its column.
pub(crate) fn decoded(column: &str) -> String {
    percent_decode_str(column).decode_utf8_lossy().into_owned()
}

/// Returns an instant, as `columns` shows it, as a literal of a `DATETIME(6)`.
pub(crate) fn time(shown: &str) -> String {
    match shown {
        "infinity" => "'9999-12-31 23:59:59.999999'".to_owned(),
        "-infinity" => "'1000-01-01 00:00:00'".to_owned(),
        _ => format!("'{}'", shown.trim_end_matches('Z').replace('T', " ")),
    }
}

pub(crate) fn optional_time(shown: Option<&str>) -> String {
    shown.map_or_else(|| "NULL".to_owned(), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_hold_nothing_that_could_end_them() {
        assert_eq!(text(r"it's \"), "_ascii X'69742773205c'");
        assert_eq!(text(""), "_ascii X''");
        assert_eq!(optional(None), "NULL");
    }

    #[test]
    fn names_are_different_in_ascii_and_come_back() {
        for (name, column) in [
            ("etl/Daily:1_a.b-c", "etl/Daily:1_a.b-c"),
            ("a ", "a%20"),
            ("a\0", "a%00"),
            ("50%", "50%25"),
            ("\u{1f980}", "%F0%9F%A6%80"),
        ] {
            assert_eq!((&*encoded(name), &*decoded(column)), (column, name));
        }
    }

    #[test]
    fn times_are_literals_of_a_datetime() {
        assert_eq!(time("2026-11-17T22:13:32.57816Z"), "'2026-11-17 22:13:32.57816'");
        assert_eq!(optional_time(Some("infinity")), "'9999-12-31 23:59:59.999999'");
        assert_eq!(time("-infinity"), "'1000-01-01 00:00:00'");
    }
}
