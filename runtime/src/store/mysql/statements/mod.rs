//! The SQL that a store sends, and the SQL that creates its tables.

use crate::store::{FORMAT, Topic};
use literals::{name, text};

pub(crate) mod literals;
pub(crate) mod reply;
pub(crate) mod swap;
pub(crate) mod tables;

/// Microseconds since 1970, by the clock at the beginning of the statement, whatever the session's time zone.
pub(crate) const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Rows that a sweep removes at most.
const SWEPT: u32 = 100;

pub(crate) fn is_key(namespace: &str, key: &str) -> String {
    format!("namespace = {} AND job_name = {}", text(namespace), name(key))
}

/// The mark that a transaction committed the work of the newest lease: two columns, and the join that they are from.
const FINISH: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.finished_at), \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', f.done_until)";
const MARK: &str = "LEFT JOIN job_fence f \
    ON f.namespace = l.namespace AND f.job_name = l.job_name AND f.fence = l.fence";

/// One row, whether there is a record or not.
pub(crate) fn look(namespace: &str, key: &str) -> String {
    let (namespace, name) = (text(namespace), name(key));
    format!(
        "SELECT @@global.read_only, {CLOCK}, l.version, l.fence, l.state, NULL, {FINISH} FROM (SELECT 1) AS one \
         LEFT JOIN job_lock l ON l.namespace = {namespace} AND l.job_name = {name} {MARK}"
    )
}

/// A page of `most` keys after this one, as the column has it.
pub(crate) fn list(namespace: &str, after: &str, most: usize) -> String {
    let (namespace, after) = (text(namespace), text(after));
    format!(
        "SELECT @@global.read_only, {CLOCK}, l.version, l.fence, l.state, l.job_name, {FINISH} FROM job_lock l {MARK} \
         WHERE l.namespace = {namespace} AND l.job_name > {after} ORDER BY l.job_name LIMIT {most}"
    )
}

/// At most `newest` records of each kind for each key.
pub(crate) fn records(namespace: &str, keys: &[String], newest: usize) -> String {
    let (namespace, keys) = (text(namespace), names(keys));
    format!(
        "SELECT job_name, kind, record FROM (\
           SELECT id, job_name, kind, record, ROW_NUMBER() OVER (PARTITION BY job_name, kind ORDER BY id DESC) AS age \
           FROM job_record WHERE namespace = {namespace} AND job_name IN ({keys})) AS of_keys \
         WHERE age <= {newest} ORDER BY id DESC"
    )
}

/// Of these keys, those whose states do not begin like those of this version.
pub(crate) fn unreadable(namespace: &str, keys: &[String]) -> String {
    let (namespace, keys) = (text(namespace), names(keys));
    format!(
        "SELECT job_name, state FROM job_lock WHERE namespace = {namespace} AND job_name IN ({keys}) \
         AND NOT (state LIKE '{{\"format\":{FORMAT},%' OR state = '{{\"format\":{FORMAT}}}') ORDER BY job_name"
    )
}

fn names(keys: &[String]) -> String {
    if keys.is_empty() {
        return "NULL".to_owned();
    }
    keys.iter().map(|key| name(key)).collect::<Vec<_>>().join(", ")
}

/// The content is a JSON string in ASCII.
pub(crate) fn put_note(namespace: &str, topic: Topic, note: &str, content: &str, micros: u128) -> String {
    let (namespace, note, content) = (text(namespace), name(note), text(content));
    let topic = topic.as_str();
    format!(
        "INSERT INTO job_note (namespace, topic, name, content, `until`) \
         VALUES ({namespace}, '{topic}', {note}, {content}, UTC_TIMESTAMP(6) + INTERVAL {micros} MICROSECOND) \
         ON DUPLICATE KEY UPDATE content = VALUES(content), `until` = VALUES(`until`); SELECT {CLOCK}"
    )
}

pub(crate) fn remove_note(namespace: &str, topic: Topic, note: &str) -> String {
    let (namespace, topic, note) = (text(namespace), topic.as_str(), name(note));
    format!(
        "DELETE FROM job_note WHERE namespace = {namespace} AND topic = '{topic}' AND name = {note}; SELECT {CLOCK}"
    )
}

/// At least one row, for the clock.
pub(crate) fn notes(namespace: &str, topic: Topic) -> String {
    let (namespace, topic) = (text(namespace), topic.as_str());
    format!(
        "SELECT {CLOCK}, n.name, n.content FROM (SELECT 1) AS one LEFT JOIN job_note n \
         ON n.namespace = {namespace} AND n.topic = '{topic}' AND n.`until` > UTC_TIMESTAMP(6)"
    )
}

/// Removes a limited number of expired rows: keys that were made from data must not pile up. It does not wait for a row that
/// is in use: it fails then, and is repeated soon.
///
/// Work that a transaction has marked as done stays. Both statements choose the same keys, and the first one locks their marks.
pub(crate) fn sweep() -> String {
    let keys = format!("expires <= @now ORDER BY expires LIMIT {SWEPT}");
    let notes = format!("`until` <= UTC_TIMESTAMP(6) ORDER BY `until` LIMIT {SWEPT}");
    let is_done = "f.namespace = job_lock.namespace AND f.job_name = job_lock.job_name";
    format!(
        "START TRANSACTION; SELECT 1 FROM job_note WHERE {notes} FOR UPDATE NOWAIT; DELETE FROM job_note WHERE {notes}; COMMIT; \
         SET @now = UTC_TIMESTAMP(6); START TRANSACTION; \
         SELECT 1 FROM job_lock LEFT JOIN job_fence f ON {is_done} \
         WHERE (f.done_until IS NULL OR f.done_until <= @now) AND {keys} FOR UPDATE NOWAIT; \
         DELETE FROM job_lock WHERE NOT EXISTS (\
         SELECT 1 FROM job_fence f WHERE {is_done} AND f.done_until > @now) AND {keys}; COMMIT"
    )
}

/// Returns the statements that create what is missing.
pub(crate) fn definitions() -> String {
    let lines = include_str!("tables.sql").lines().map(|line| line.split("--").next().unwrap_or_default());
    lines
        .filter(|line| !line.trim().is_empty())
        .collect::<Vec<_>>()
        .join("\n")
        .trim_end_matches(';')
        .to_owned()
}

/// Returns the same for an administrator to run, with the grants for a user that does not own the tables.
pub(crate) fn script(database: &str, user: Option<&str>) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let database = quoted(database);
    let mut script = format!("USE {database};\n{};\n", definitions());
    if let Some(user) = user {
        for table in ["lock", "fence", "record", "note"] {
            let grant = format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.job_{table} TO {};\n",
                quoted(user)
            );
            script.push_str(&grant);
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_in_ascii_without_comments() {
        let sql = definitions();
        assert!(sql.is_ascii() && !sql.contains("--") && sql.ends_with("LIMIT 0"), "{sql}");
        let script = script("sh`op", Some("jobs"));
        assert!(script.starts_with("USE `sh``op`;"), "{script}");
        assert!(script.ends_with("DELETE ON `sh``op`.job_note TO `jobs`;\n"), "{script}");
    }
}
