//! Connections of a `sqlx` pool.

use mysql_async::ServerError;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Error, MySql, MySqlPool, Row};

use super::{MessageConnection, TextRow};
use crate::store::mysql::errors::{MysqlError, MysqlResult};
use crate::store::net::borrowed::sqlx_error;
use crate::store::net::url::bracketed;

/// Returns the server's address without a password, and the user.
pub(crate) fn location(pool: &MySqlPool) -> (String, String) {
    let options = pool.connect_options();
    let user = options.get_username().to_owned();
    let host = match options.get_socket() {
        Some(path) => path.display().to_string(),
        None => format!("{}:{}", bracketed(options.get_host()), options.get_port()),
    };
    (format!("mysql://{user}@{host}/{}", options.get_database().unwrap_or_default()), user)
}

impl MessageConnection for PoolConnection<MySql> {
    async fn query(&mut self, text: &str) -> MysqlResult<Vec<TextRow>> {
        // Without parameters nothing is prepared, and all columns are texts.
        let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut **self).await?;
        Ok(rows.iter().map(texts).collect::<Result<_, _>>()?)
    }
}

fn texts(row: &MySqlRow) -> Result<TextRow, Error> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (0..row.len()).map(|index| Ok(row.try_get_unchecked::<Option<Vec<u8>>, _>(index)?.map(text))).collect()
}

impl From<Error> for MysqlError {
    fn from(error: Error) -> Self {
        let server =
            error.as_database_error().and_then(|server| server.try_downcast_ref::<MySqlDatabaseError>());
        if let Some(server) = server {
            let (message, state) =
                (server.message().to_owned(), server.code().unwrap_or_default().to_owned());
            return ServerError { code: server.number(), message, state }.into();
        }
        let (kind, message) = sqlx_error(&error);
        Self::new(kind, message)
    }
}
