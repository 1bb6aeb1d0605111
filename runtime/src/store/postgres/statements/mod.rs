//! The SQL that a store sends, and the SQL that creates its tables.
//!
//! Each text is one statement and one transaction, so it works over any connection of a pooler.

use std::hash::{DefaultHasher, Hash, Hasher};

use prepared::{BRIEF_WAIT, BRIEF_WAIT_AND_ONE_PLAN, Parameter};

pub(crate) mod prepared;
pub(crate) mod reply;
pub(crate) mod swap;
pub(crate) mod tables;

/// The text of a statement.
#[derive(Clone)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// The name under which a session prepares it, if it is sent often. No other text has the same name.
    pub(super) name: Option<String>,
    /// The settings of its transaction.
    pub(super) settings: &'static str,
}

impl Statement {
    pub(super) fn plain(sql: String) -> Self {
        Self { sql, name: None, settings: BRIEF_WAIT }
    }

    fn prepared(sql: String) -> Self {
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        Self { sql, name: Some(format!("jobs_{:016x}", hasher.finish())), settings: BRIEF_WAIT }
    }

    fn swap(sql: String) -> Self {
        Self { settings: BRIEF_WAIT_AND_ONE_PLAN, ..Self::prepared(sql) }
    }

    pub(super) fn with<'a>(&'a self, parameters: &'a [Parameter<'a>]) -> Query<'a> {
        Query { statement: self, parameters }
    }
}

/// A statement with its parameters.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) statement: &'a Statement,
    pub(super) parameters: &'a [Parameter<'a>],
}

macro_rules! statements {
    ($($(#[$about:meta])* $name:ident: $kind:ident($($part:expr),+);)+) => {
        /// The statements of a schema.
        pub(super) struct Statements {
            $($(#[$about])* pub(super) $name: Statement,)+
        }

        impl Statements {
            /// The name has been checked: it needs no escapes.
            pub(super) fn of(schema: &str) -> Self {
                Self { $($name: Statement::$kind(fill(concat!($($part),+), schema)),)+ }
            }

            #[cfg(test)]
            fn all(self) -> Vec<String> {
                vec![$(self.$name.sql),+]
            }
        }
    };
}

statements! {
    look: prepared(include_str!("sql/look.sql"));
    update: swap(include_str!("sql/update.sql"), include_str!("sql/fence.sql"), include_str!("sql/swapped.sql"));
    update_and_append: swap(
        include_str!("sql/update.sql"), include_str!("sql/fence.sql"), include_str!("sql/append.sql"),
        include_str!("sql/swapped.sql")
    );
    insert: swap(include_str!("sql/insert.sql"), include_str!("sql/fence.sql"), include_str!("sql/swapped.sql"));
    insert_and_append: swap(
        include_str!("sql/insert.sql"), include_str!("sql/fence.sql"), include_str!("sql/append.sql"),
        include_str!("sql/swapped.sql")
    );
    delete: swap(include_str!("sql/delete.sql"), include_str!("sql/swapped.sql"));
    sweep: plain(include_str!("sql/sweep.sql"));

    /// Both are sent in a transaction of the application, and fail unless the lease is the newest one: that aborts the transaction.
    /// $3 fence, $4 token, $5 microseconds for which work counts as done. A row that was written in a savepoint has another
    /// transaction id: the savepoint could be rolled back alone.
    finish: plain("WITH finished AS (UPDATE $schema.job_fence SET finished_at = clock_timestamp(),
          done_until = clock_timestamp() + $5::bigint * interval '1 microsecond'
          WHERE namespace = $1 AND job_name = $2 AND fence = $3 AND token = $4 AND finished_at IS NULL
          RETURNING xmin::text::bigint = txid_current() % 4294967296 AS outside_savepoint)
        SELECT 1 / count(*) FROM finished WHERE outside_savepoint");
    check_fence: plain("WITH newest AS (SELECT 1 FROM $schema.job_fence
          WHERE namespace = $1 AND job_name = $2 AND fence = $3 AND token = $4 FOR SHARE)
        SELECT 1 / count(*) FROM newest");

    /// Keys per page: $3.
    list: plain("SELECT pg_is_in_recovery(), $clock, l.version, l.fence, l.state, l.job_name, $finish FROM $schema.job_lock l $mark
        WHERE l.namespace = $1 AND l.job_name > $2 ORDER BY l.job_name LIMIT $3");

    /// $2: an array of keys in JSON. $3: as many of each kind for each key.
    records: plain("SELECT k.job_name, k.kind, newest.record
        FROM (SELECT job_name, kind FROM json_array_elements_text($2::json) AS of_keys (job_name)
          CROSS JOIN (VALUES ('run'), ('skip')) AS kinds (kind)) AS k
        CROSS JOIN LATERAL (SELECT r.id, r.record FROM $schema.job_record r
          WHERE r.namespace = $1 AND r.job_name = k.job_name AND r.kind = k.kind ORDER BY r.id DESC LIMIT $3) AS newest
        ORDER BY newest.id DESC");

    /// $5: microseconds.
    put_note: plain("INSERT INTO $schema.job_note (namespace, topic, name, content, until)
        SELECT $1, $2, $3, $4, clock_timestamp() + $5 * interval '1 microsecond'
        ON CONFLICT (namespace, topic, name) DO UPDATE SET content = excluded.content, until = excluded.until
        RETURNING $clock");

    remove_note: plain("WITH removed AS (
        DELETE FROM $schema.job_note WHERE namespace = $1 AND topic = $2 AND name = $3
        ) SELECT $clock");

    /// At least one row, for the clock.
    notes: plain("SELECT $clock, n.name, n.content FROM (VALUES (1)) AS one
        LEFT JOIN $schema.job_note n ON n.namespace = $1 AND n.topic = $2 AND n.until > now() ORDER BY n.name");

    /// Marks that a caller waits for a key. Written only if the mark would expire within a minute.
    await_key: plain("INSERT INTO $schema.job_note (namespace, topic, name, content, until)
        SELECT $1, 'waiting', $2, '\"\"', now() + interval '2 minutes' WHERE NOT EXISTS (
          SELECT FROM $schema.job_note
          WHERE namespace = $1 AND topic = 'waiting' AND name = $2 AND until > now() + interval '1 minute')
        ON CONFLICT (namespace, topic, name) DO UPDATE SET until = excluded.until");

    /// Notifies the callers that wait for a key, if there are any: commits that notify are serialized. Sent after the swap was
    /// answered, so that it sees every caller that looked before the commit.
    notify: plain("SELECT pg_notify('jobs_freed', $3) FROM $schema.job_note
        WHERE namespace = $1 AND topic = 'waiting' AND name = $2 AND until > now()");

    /// Of the keys in a JSON array, those whose states match none of the patterns $3 and $4 of this version.
    unreadable: plain("SELECT job_name, state FROM $schema.job_lock
        WHERE namespace = $1 AND job_name IN (SELECT json_array_elements_text($2::json))
        AND NOT (state LIKE $3 OR state LIKE $4) ORDER BY job_name");
}

/// Returns the statements that create the tables.
pub(super) fn tables(schema: &str) -> String {
    fill(include_str!("sql/tables.sql"), schema)
}

/// Returns the SQL that creates what is missing, as one transaction. The schema's name has been checked: it needs no
/// escapes.
///
/// Servers that create the tables at the same time wait for each other, and then see what was created, whatever the
/// default isolation level.
pub(super) fn definitions(schema: &str) -> String {
    // `CREATE SCHEMA IF NOT EXISTS` needs the right to make one even if it is there.
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(7021995431160274291);\n\
         DO $$ BEGIN IF to_regnamespace('\"{schema}\"') IS NULL THEN CREATE SCHEMA \"{schema}\"; END IF; END $$;\n\
         {}\n",
        tables(schema)
    )
}

/// Returns the same for an administrator to run, with the grants for a user that does not own the tables.
pub(super) fn script(schema: &str, user: Option<&str>) -> String {
    let grants = user.map(|user| user.replace('"', "\"\"")).map(|user| {
        let tables =
            ["lock", "fence", "record", "note"].map(|table| format!("\"{schema}\".job_{table}")).join(", ");
        format!(
            "GRANT USAGE ON SCHEMA \"{schema}\" TO \"{user}\";\n\
             GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO \"{user}\";\n"
        )
    });
    format!("BEGIN;\n{}{}COMMIT;\n", definitions(schema), grants.unwrap_or_default())
}

/// Replaces the placeholders in a text.
fn fill(template: &str, schema: &str) -> String {
    let schema = format!("\"{schema}\"");
    let message = [
        // The mark that a transaction committed the work of the newest lease: two columns, and the join that they are from.
        ("$finish", "$micros(f.finished_at), $micros(f.done_until)"),
        (
            "$mark",
            "LEFT JOIN $schema.job_fence f ON f.namespace = l.namespace AND f.job_name = l.job_name AND f.fence = l.fence",
        ),
        ("$micros(f.finished_at)", "(extract(epoch FROM f.finished_at) * 1000000)::bigint"),
        ("$micros(f.done_until)", "(extract(epoch FROM f.done_until) * 1000000)::bigint"),
        ("$schema", schema.as_str()),
        ("$clock", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"),
        // `FenceChange`: $7 is 1 if it is the next one, else $8 is the least.
        (
            "$fence",
            "CASE $7 WHEN 1 THEN greatest(least(c.fence, 9223372036854775806) + 1, now) ELSE greatest(c.fence, $8) END",
        ),
    ];
    let without_comments: Vec<_> =
        template.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    message
        .iter()
        .fold(without_comments.join("\n"), |text, (word, expression)| text.replace(word, expression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_filled_and_in_ascii() {
        for text in Statements::of("my-jobs").all().into_iter().chain([tables("my-jobs")]) {
            let mut rest = text.as_str();
            while let Some((_, after)) = rest.split_once('$') {
                assert!(after.starts_with(|c: char| c.is_ascii_digit()), "{text}");
                rest = after;
            }
            assert!(text.contains("\"my-jobs\".job_"), "{text}");
            assert!(text.is_ascii(), "a database of any encoding takes it: {text}");
        }
    }
}
