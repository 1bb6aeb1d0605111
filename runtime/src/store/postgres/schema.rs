//! The tables that a schema needs, and who may use them.

use super::statements;

/// Makes what is missing; sent at once, it is one transaction. The name has been checked: it needs no escapes.
///
/// Two servers that make the tables at once would trip over each other. The one that had to wait must then see what was
/// made, also where a transaction usually sees only what was there when it began.
pub(super) fn definitions(schema: &str) -> String {
    // `CREATE SCHEMA IF NOT EXISTS` needs the right to make one even if it is there.
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(7021995431160274291);\n\
         DO $$ BEGIN IF to_regnamespace('\"{schema}\"') IS NULL THEN CREATE SCHEMA \"{schema}\"; END IF; END $$;\n\
         {}\n",
        statements::tables(schema)
    )
}

/// The same, for an administrator to run, with what a user needs who did not make the tables.
pub(super) fn script(schema: &str, user: Option<&str>) -> String {
    let grants = user.map(|user| user.replace('"', "\"\"")).map(|user| {
        let tables = ["lock", "record", "note"].map(|table| format!("\"{schema}\".job_{table}")).join(", ");
        format!(
            "GRANT USAGE ON SCHEMA \"{schema}\" TO \"{user}\";\n\
             GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO \"{user}\";\n"
        )
    });
    format!("BEGIN;\n{}{}COMMIT;\n", definitions(schema), grants.unwrap_or_default())
}
