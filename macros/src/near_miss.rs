//! The argument that was meant by a misspelt one, or by its name in other libraries.

/// What others call it.
const SYNONYMS: [(&str, &str); 9] = [
    ("cron", "every"),
    ("schedule", "every"),
    ("interval", "every"),
    ("name", "key"),
    ("lease", "ttl"),
    ("expires", "ttl"),
    ("timezone", "tz"),
    ("zone", "tz"),
    ("retry", "retries"),
];

/// The known name with the same meaning, or with the smallest edit distance to `written`: at most one edit for every three letters,
/// without regard to case and `_`. The first of several that are equally near.
pub(crate) fn nearest(
    written: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Option<&'static str> {
    let written = plain(written);
    let synonym = SYNONYMS.iter().find(|(synonym, _)| synonym.chars().eq(written.iter().copied()));
    if let Some((_, meant)) = synonym.filter(|(_, meant)| known.clone().any(|name| name == *meant)) {
        return Some(meant);
    }
    let distances = known.map(|name| {
        let plain_name = plain(name);
        (edit_distance(&written, &plain_name), plain_name.len().max(written.len()), name)
    });
    let near = distances.filter(|(distance, longer, _)| distance * 3 <= *longer);
    near.min_by_key(|(distance, ..)| *distance).map(|(.., name)| name)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|letter| *letter != '_').flat_map(char::to_lowercase).collect()
}

/// The number of letters to insert, remove, replace or exchange with their neighbour (optimal string alignment).
fn edit_distance(one: &[char], two: &[char]) -> usize {
    // Row `i` has the distances between the first `i` letters of `one` and each beginning of `two`.
    let mut rows = vec![(0..=two.len()).collect::<Vec<_>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in two.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut distance = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == two[j - 1] && one[i - 1] == *b {
                distance = distance.min(rows[i - 1][j - 1] + 1);
            }
            row.push(distance);
        }
        rows.push(row);
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 8] = ["key", "ttl", "every", "tz", "timeout", "retries", "retry_delay", "keep_alive"];

    #[test]
    fn near_miss_is_recognised() {
        for (written, meant) in [
            ("evry", "every"),
            ("Every", "every"),
            ("tll", "ttl"),
            ("kye", "key"),
            ("time_out", "timeout"),
            ("retires", "retries"),
            ("retrydelay", "retry_delay"),
            ("keep_alvie", "keep_alive"),
        ] {
            assert_eq!(nearest(written, KNOWN.into_iter()), Some(meant), "{written}");
        }
    }

    #[test]
    fn unrelated_name_has_no_near_miss() {
        for written in ["plan", "k", "zt", "delay", ""] {
            assert_eq!(nearest(written, KNOWN.into_iter()), None, "{written}");
        }
    }

    #[test]
    fn name_of_another_library_is_recognised() {
        for (written, meant) in [("cron", "every"), ("Time_Zone", "tz"), ("name", "key")] {
            assert_eq!(nearest(written, KNOWN.into_iter()), Some(meant), "{written}");
        }
        assert_eq!(nearest("cron", ["key", "ttl"].into_iter()), None, "only what the attribute has");
    }

    #[test]
    fn every_synonym_is_of_an_argument() {
        for (synonym, meant) in SYNONYMS {
            assert!(KNOWN.contains(&meant), "{synonym}");
        }
    }
}
