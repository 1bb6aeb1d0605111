//! The tables that a schema needs, and who may use them.

use super::statements;

/// Two servers that make the tables at once would trip over each other. The one that had to wait must then see what was
/// made, also where a transaction usually sees only what was there when it began.
const ONE_AT_A_TIME: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
     SELECT pg_advisory_xact_lock(7021995431160274291);";

/// Makes what is missing; sent at once, it is one transaction. The name has been checked: it needs no escapes.
pub(super) fn definitions(schema: &str) -> String {
    // `CREATE SCHEMA IF NOT EXISTS` needs the right to make one even if it is there.
    format!(
        "{ONE_AT_A_TIME}\n\
         DO $$ BEGIN IF to_regnamespace('\"{schema}\"') IS NULL THEN CREATE SCHEMA \"{schema}\"; END IF; END $$;\n\
         {}\n",
        statements::tables(schema)
    )
}

/// The same, for an administrator to run, with what a user needs who did not make the tables.
pub(super) fn script(schema: &str, user: Option<&str>) -> String {
    let grants = user.map(|user| grants(schema, &user.replace('"', "\"\""))).unwrap_or_default();
    format!("BEGIN;\n{}{grants}COMMIT;\n", definitions(schema))
}

fn grants(schema: &str, user: &str) -> String {
    let tables = ["job_lock", "job_record", "job_note"];
    let tables = tables.map(|table| format!("\"{schema}\".{table}")).join(", ");
    format!(
        "GRANT USAGE ON SCHEMA \"{schema}\" TO \"{user}\";\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO \"{user}\";\n"
    )
}
