//! Sends a statement as one message of the simple protocol, which is one transaction.
//!
//! The message first limits the wait for row and table locks: a statement that waits for another session delays those
//! behind it, and keeps its session busy long after its caller has stopped waiting.
//!
//! Each session parses and plans looks and swaps once: that is most of their cost. They are prepared in SQL, each under a
//! name that no other text has, so that a pooler can never execute another one in its place. A session that does not know
//! one yet refuses it, and then gets both together: behind a pooler the next message may go to another session.

use std::fmt::Write;

use tokio_postgres::error::SqlState;

use super::Query;
use crate::store::StoreErrorKind;
use crate::store::postgres::connection::{PostgresConnection, TextRow};
use crate::store::postgres::errors::{PostgresError, Result};

/// Before every statement.
pub(crate) const BRIEF_WAIT: &str = "SET LOCAL lock_timeout = '50ms'";

/// Before swaps. PostgreSQL overestimates the cost of their generic plan, and would make another one for each execution: a
/// third of the cost of a swap.
pub(crate) const BRIEF_WAIT_AND_ONE_PLAN: &str =
    "SET LOCAL lock_timeout = '50ms'; SET LOCAL plan_cache_mode = force_generic_plan";

/// Number of attempts with sessions that refuse a statement as unknown, or its preparation as known.
const SESSIONS: usize = 10;

/// A parameter with its type.
#[derive(Clone, Copy)]
pub(crate) enum Parameter<'a> {
    Text(Option<&'a str>),
    Number(i64),
}

pub(crate) fn text<'a>(value: impl Into<Option<&'a str>>) -> Parameter<'a> {
    Parameter::Text(value.into())
}

impl Parameter<'_> {
    pub(crate) fn count(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "bigint",
        }
    }

    /// As a part of a statement. A string means the same whether `standard_conforming_strings` is on or off.
    fn literal(self) -> Result<String> {
        match self {
            Self::Text(None) => Ok("NULL".to_owned()),
            Self::Text(Some(text)) if text.contains('\0') => Err(PostgresError::new(
                StoreErrorKind::Misconfigured,
                "a name contains U+0000; use names in ASCII, without it",
            )),
            Self::Text(Some(text)) => Ok(format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))),
            Self::Number(number) => Ok(format!("'{number}'")),
        }
    }
}

impl Query<'_> {
    /// The rows are there only once the server has committed: an error at the very end counts.
    pub(crate) async fn rows(self, connection: &PostgresConnection) -> Result<Vec<TextRow>> {
        let Self { statement, parameters } = self;
        let literals = parameters.iter().map(|parameter| parameter.literal()).collect::<Result<Vec<_>>>()?;
        let (settings, patience) = (statement.settings, connection.timeouts.response);
        // Nothing is left behind in a session that is lent.
        let Some(name) = statement.name.as_ref().filter(|_| connection.is_own()) else {
            let sql = fill_in(&statement.sql, parameters, &literals);
            return connection.send(&format!("{settings}; {sql}"), patience).await;
        };
        let execute = format!("EXECUTE {name} ({})", literals.join(", "));
        let mut before = String::new();
        for _ in 1..SESSIONS {
            let result = connection.send(&format!("{settings}; {before}{execute}"), patience).await;
            let Err(error) = &result else { return result };
            // In all of these cases nothing was executed.
            before = if error.is(&SqlState::INVALID_SQL_STATEMENT_NAME) {
                self.preparation(name)
            } else if error.is(&SqlState::FEATURE_NOT_SUPPORTED) {
                // The type of a column has changed since.
                format!("DEALLOCATE {name}; {}", self.preparation(name))
            } else if error.is(&SqlState::DUPLICATE_PSTATEMENT) {
                String::new()
            } else {
                return result;
            };
        }
        let sql = fill_in(&statement.sql, parameters, &literals);
        connection.send(&format!("{settings}; {sql}"), patience).await
    }

    /// The statement as one text, for a transaction of the application.
    pub(crate) fn text(self) -> Result<String> {
        let Self { statement, parameters } = self;
        let literals = parameters.iter().map(|parameter| parameter.literal()).collect::<Result<Vec<_>>>()?;
        Ok(fill_in(&statement.sql, parameters, &literals))
    }

    fn preparation(&self, name: &str) -> String {
        let types: Vec<_> = self.parameters.iter().map(|parameter| parameter.type_name()).collect();
        format!("PREPARE {name} ({}) AS {}; ", types.join(", "), self.statement.sql)
    }
}

/// The statement with literals in place of `$1` and so on.
fn fill_in(sql: &str, parameters: &[Parameter<'_>], literals: &[String]) -> String {
    let mut parts = sql.split('$');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let index = part[..digits].parse::<usize>().unwrap_or_default().wrapping_sub(1);
        let (literal, type_name) = (&literals[index], parameters[index].type_name());
        write!(filled, "{literal}::{type_name}{}", &part[digits..]).expect("a string takes every write");
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_filled_in_by_their_numbers_and_with_their_types() {
        let parameters = [text("it's \\ $2"), Parameter::Number(i64::MIN), text(None)];
        let literals: Vec<_> = parameters.iter().map(|parameter| parameter.literal().unwrap()).collect();
        assert_eq!(
            fill_in("SELECT $2 + 1, $1||$3", &parameters, &literals),
            r"SELECT '-9223372036854775808'::bigint + 1, E'it''s \\ $2'::text||NULL::text"
        );
    }
}
