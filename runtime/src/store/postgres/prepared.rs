//! Looks and swaps, which a session parses and plans once: that is most of what they cost. The first one of a kind costs a
//! connection one more round trip.
//!
//! They are prepared in SQL, each under a name that no other text has. A pooler that assigns sessions per transaction can
//! then never execute another statement in its place, as it could with the names that the client gives. Behind such a pooler
//! the session that executes one may not be the one that has prepared it; then it is sent as any other statement.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::connection::Line;
use super::statements::Query;

/// A parameter, which knows its type: with the types a statement needs no preparation, so that any connection of a pooler
/// will do.
pub(super) enum Parameter<'a> {
    Text(Option<&'a str>),
    Number(i64),
    Texts(&'a [String]),
}

pub(super) fn text<'a>(value: impl Into<Option<&'a str>>) -> Parameter<'a> {
    Parameter::Text(value.into())
}

impl Parameter<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Number(number) => (number, Type::INT8),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
        }
    }

    /// As a part of a statement's text; `None` if it cannot be one. A string means the same whether
    /// `standard_conforming_strings` is on or off.
    fn to_literal(&self) -> Option<String> {
        match self {
            Self::Text(None) => Some("NULL".to_owned()),
            // The text of a statement ends at such a character; as a parameter it is refused with a reason.
            Self::Text(Some(text)) if text.contains('\0') => None,
            Self::Text(Some(text)) => Some(format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))),
            Self::Number(number) => Some(format!("'{number}'")),
            Self::Texts(_) => None,
        }
    }
}

impl Query<'_> {
    /// The rows are there only once the server has committed: an error at the very end counts.
    pub(super) async fn rows(self, line: &Line) -> Result<Vec<Row>, Error> {
        if let Some(prepared) = &line.prepared
            && let Some(rows) = prepared.execute(self, line.client()).await?
        {
            return Ok(rows);
        }
        let parameters: Vec<_> = self.parameters.iter().map(Parameter::typed).collect();
        line.client().query_typed(&self.statement.sql, &parameters).await
    }
}

/// What a session knows of the statements, by their names: `true` if it has prepared one, `false` while it is being prepared,
/// or if it cannot be used.
#[derive(Default)]
pub(super) struct Prepared(Mutex<HashMap<String, bool>>);

const NOT_EXECUTED: &[SqlState] = &[SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::FEATURE_NOT_SUPPORTED];

impl Prepared {
    /// Executes a prepared statement; `None` if it has to be sent as any other one, and was not executed.
    async fn execute(&self, query: Query<'_>, client: &Client) -> Result<Option<Vec<Row>>, Error> {
        let Query { statement, parameters } = query;
        let Some(name) = &statement.name else { return Ok(None) };
        let literals: Option<Vec<_>> = parameters.iter().map(Parameter::to_literal).collect();
        let Some(literals) = literals else { return Ok(None) };
        let known = self.names().get(name).copied();
        if known == Some(false) {
            return Ok(None);
        }
        if known.is_none() {
            self.names().insert(name.clone(), false);
            let types: Vec<_> = parameters.iter().map(|parameter| parameter.typed().1.to_string()).collect();
            let prepare = format!("PREPARE {name} ({}) AS {}", types.join(", "), statement.sql);
            if let Err(error) = client.batch_execute(&prepare).await {
                if error.code() == Some(&SqlState::UNDEFINED_TABLE) {
                    self.names().remove(name);
                }
                return Ok(None);
            }
            self.names().insert(name.clone(), true);
        }
        let execute = format!("EXECUTE {name} ({})", literals.join(", "));
        match client.query_typed(&execute, &[]).await {
            // Refused before anything is executed: this session has not prepared it, or a column's type has changed since.
            Err(error) if error.code().is_some_and(|code| NOT_EXECUTED.contains(code)) => {
                self.names().insert(name.clone(), false);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
