//! Connections of a `sqlx` pool.

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgDatabaseError, PgRow};
use sqlx::{AssertSqlSafe, Error, PgPool, Postgres, Row};
use tokio::runtime::Handle;
use tokio_postgres::error::SqlState;

use super::TextRow;
use crate::store::StoreErrorKind;
use crate::store::net::borrowed::{ALL_IN_USE, Borrowed, RequestFailure, TASK_ENDED, request, sqlx_error};
use crate::store::net::connection::ConnectionFault;
use crate::store::net::timeouts::Timeouts;
use crate::store::net::url::bracketed;
use crate::store::postgres::errors::{PostgresError, Result};

#[derive(Clone)]
pub(crate) struct SqlxSource {
    pub(crate) pool: PgPool,
    /// Runs the requests: the pool's connections live there.
    pub(crate) app: Handle,
}

impl SqlxSource {
    /// Returns the server's address without a password, and the user.
    pub(crate) fn location(&self) -> (String, String) {
        let options = self.pool.connect_options();
        let user = options.get_username().to_owned();
        let host = match options.get_socket() {
            Some(path) => path.display().to_string(),
            None => bracketed(options.get_host()),
        };
        let database = options.get_database().unwrap_or(&user);
        (format!("postgres://{user}@{host}:{}/{database}", options.get_port()), user)
    }

    /// Sends one message over a connection of the pool, and returns the rows of its answer.
    pub(super) async fn send(&self, text: String, timeouts: Timeouts) -> Result<Vec<TextRow>> {
        let pool = self.pool.clone();
        let borrow = async move { pool.acquire().await.map_err(PostgresError::from) };
        let answer = request(&self.app, timeouts, borrow, |connection| query(connection, text));
        answer.await.map_err(|failure| match failure {
            RequestFailure::NotLent => {
                PostgresError::timed_out("no connection was lent", timeouts.connect).with_advice(ALL_IN_USE)
            }
            RequestFailure::Unanswered => PostgresError::timed_out("no answer", timeouts.response),
            RequestFailure::TaskEnded => PostgresError::new(StoreErrorKind::Unreachable, TASK_ENDED),
            RequestFailure::Error(error) => error,
        })
    }
}

async fn query(mut connection: Borrowed<PoolConnection<Postgres>>, text: String) -> Result<Vec<TextRow>> {
    // Without parameters it is a message of the simple protocol: nothing is prepared, and all columns are texts.
    let answer = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut **connection).await;
    let result = answer.and_then(|rows| rows.iter().map(texts).collect()).map_err(PostgresError::from);
    if result.as_ref().err().is_none_or(|error| error.fault() == ConnectionFault::None) {
        connection.give_back();
    }
    result
}

fn texts(row: &PgRow) -> std::result::Result<TextRow, Error> {
    (0..row.len()).map(|index| row.try_get_unchecked(index)).collect()
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        let server =
            error.as_database_error().and_then(|server| server.try_downcast_ref::<PgDatabaseError>());
        if let Some(server) = server {
            let code = SqlState::from_code(server.code());
            return Self::of_server(code, server.message(), [server.detail(), server.hint()]);
        }
        let (kind, message) = sqlx_error(&error);
        Self::new(kind, message)
    }
}
