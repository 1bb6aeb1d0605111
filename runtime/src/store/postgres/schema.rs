//! The tables and functions that a schema needs.

/// Two servers that make them at once would trip over each other. Whoever had to wait must then see what was made, also
/// where a transaction usually sees only what was there when it began.
const ONE_AT_A_TIME: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
     SELECT pg_advisory_xact_lock(7021995431160274291);";

const DEFINITIONS: &str = concat!(
    include_str!("tables.sql"),
    include_str!("state.sql"),
    include_str!("claim.sql"),
    include_str!("lease.sql"),
    include_str!("slots.sql"),
    include_str!("held.sql"),
    include_str!("operator.sql"),
    include_str!("fleet.sql"),
);

/// Makes whatever is missing; sent at once, it is one transaction. The name has been checked: it needs no escapes.
pub(super) fn definitions(schema: &str) -> String {
    // Asking for a schema that is there needs the right to make one, so it is asked for only if it is not.
    format!(
        "{ONE_AT_A_TIME}\n\
         DO $$ BEGIN IF to_regnamespace('\"{schema}\"') IS NULL THEN CREATE SCHEMA \"{schema}\"; END IF; END $$;\n\
         SET LOCAL search_path TO \"{schema}\", pg_temp;\n\
         {DEFINITIONS}"
    )
}

/// The same, for an administrator to run, with what a user needs who did not make the tables.
pub(super) fn script(schema: &str, user: Option<&str>) -> String {
    let grants = user.map(|user| grants(schema, &user.replace('"', "\"\""))).unwrap_or_default();
    format!("BEGIN;\n{}{grants}COMMIT;\n", definitions(schema))
}

fn grants(schema: &str, user: &str) -> String {
    let tables = ["job_lock", "job_slot", "job_run", "job_skip", "job_server", "job_request"];
    let tables = tables.map(|table| format!("\"{schema}\".{table}")).join(", ");
    format!(
        "GRANT USAGE ON SCHEMA \"{schema}\" TO \"{user}\";\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO \"{user}\";\n"
    )
}
