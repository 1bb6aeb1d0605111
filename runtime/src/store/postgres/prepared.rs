//! Looks and swaps, which a session parses and plans once: that is most of what they cost. The first one of a kind costs a
//! connection one more round trip.
//!
//! They are prepared in SQL, each under a name that no other text has. A pooler that assigns sessions per transaction can
//! then never execute another statement in its place, as it could with the names that the client gives. Behind such a pooler
//! the session that executes one may not be the one that has prepared it; then it is sent as any other statement.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::connection::Line;
use super::tables::{Parameter, Statement};

/// How a connection stands to the statements, by the digests of their texts.
#[derive(Default)]
pub(super) struct Preparation(Mutex<HashMap<u64, State>>);

#[derive(Clone, Copy, PartialEq)]
enum State {
    Prepared,
    /// It is being prepared, or cannot be used.
    Unprepared,
}

impl Preparation {
    fn states(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOT_EXECUTED: &[SqlState] = &[SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::FEATURE_NOT_SUPPORTED];

/// Executes a prepared statement; `None` if it has to be sent as any other one, and was not executed.
pub(super) async fn execute(statement: Statement<'_>, line: &Line) -> Result<Option<Vec<Row>>, Error> {
    let Some(preparation) = line.preparation() else { return Ok(None) };
    let literals: Option<Vec<_>> = statement.parameters.iter().map(Parameter::to_literal).collect();
    let Some(literals) = literals else { return Ok(None) };
    let mut hasher = DefaultHasher::new();
    statement.sql.hash(&mut hasher);
    let digest = hasher.finish();
    let name = format!("jobs_{digest:016x}");

    let known = preparation.states().get(&digest).copied();
    if known.is_none() {
        preparation.states().insert(digest, State::Unprepared);
        let types: Vec<_> = statement.parameters.iter().map(Parameter::type_name).collect();
        let prepare = format!("PREPARE {name} ({}) AS {}", types.join(", "), statement.sql);
        if let Err(error) = line.client().batch_execute(&prepare).await {
            if error.code() == Some(&SqlState::UNDEFINED_TABLE) {
                preparation.states().remove(&digest);
            }
            return Ok(None);
        }
        preparation.states().insert(digest, State::Prepared);
    }
    if known == Some(State::Unprepared) {
        return Ok(None);
    }
    let execute = format!("EXECUTE {name} ({})", literals.join(", "));
    match line.client().query_typed(&execute, &[]).await {
        // Refused before anything is executed: this session has not prepared it, or a column's type has changed since.
        Err(error) if error.code().is_some_and(|code| NOT_EXECUTED.contains(code)) => {
            preparation.states().insert(digest, State::Unprepared);
            Ok(None)
        }
        result => result.map(Some),
    }
}
