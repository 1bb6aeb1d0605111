//! Pools of an application, which lends their connections.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use jobs::store::Store;
use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, PoolConstraints, PoolOpts};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, MySql, MySqlPool, PgPool, Postgres, Row};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::postgres_server::PATIENCE;

/// A client whose pool a store can borrow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    DeadpoolPostgres,
    SqlxPostgres,
    MysqlAsync,
    SqlxMysql,
}

impl PoolKind {
    pub fn is_postgres(self) -> bool {
        matches!(self, Self::DeadpoolPostgres | Self::SqlxPostgres)
    }

    /// A pool of so many connections to the server at this URL, without resets of sessions and other precautions.
    pub fn pool(self, url: &str, size: usize) -> ApplicationPool {
        match self {
            Self::DeadpoolPostgres => {
                let config = url.parse().expect("a URL");
                let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
                let builder = Pool::builder(Manager::from_config(config, NoTls, recycling));
                let pool = builder.max_size(size).runtime(Runtime::Tokio1).build();
                ApplicationPool::DeadpoolPostgres(pool.expect("a pool"))
            }
            Self::SqlxPostgres => {
                let options: PgConnectOptions = url.parse().expect("a URL");
                let pool = PgPoolOptions::new().max_connections(u32::try_from(size).expect("a size"));
                ApplicationPool::SqlxPostgres(pool.acquire_timeout(PATIENCE).connect_lazy_with(options))
            }
            Self::MysqlAsync => {
                // It keeps as many idle connections as its minimum.
                let constraints = PoolConstraints::new(size, size).expect("a size");
                let options = PoolOpts::default().with_constraints(constraints).with_reset_connection(false);
                let url = mysql_async::Opts::from_url(url).expect("a URL");
                let options = OptsBuilder::from_opts(url).pool_opts(options).prefer_socket(false);
                ApplicationPool::MysqlAsync(mysql_async::Pool::new(options))
            }
            Self::SqlxMysql => {
                let options: MySqlConnectOptions = url.parse().expect("a URL");
                let pool = MySqlPoolOptions::new().max_connections(u32::try_from(size).expect("a size"));
                ApplicationPool::SqlxMysql(pool.acquire_timeout(PATIENCE).connect_lazy_with(options))
            }
        }
    }
}

#[derive(Clone)]
pub enum ApplicationPool {
    DeadpoolPostgres(Pool),
    SqlxPostgres(PgPool),
    MysqlAsync(mysql_async::Pool),
    SqlxMysql(MySqlPool),
}

impl ApplicationPool {
    /// A store over this pool.
    pub fn store(&self, namespace: &str) -> Arc<dyn Store> {
        self.store_within(namespace, PATIENCE, PATIENCE)
    }

    /// A store with these timeouts, for a connection and for a response.
    pub fn store_within(&self, namespace: &str, connect: Duration, response: Duration) -> Arc<dyn Store> {
        let name = Some(namespace);
        let postgres = match self {
            Self::DeadpoolPostgres(pool) => PostgresStore::from_pool(pool.clone(), name),
            Self::SqlxPostgres(pool) => PostgresStore::from_sqlx(pool.clone(), name),
            Self::MysqlAsync(pool) => {
                let store = MysqlStore::from_pool(pool.clone(), name).expect("a runtime");
                return Arc::new(store.with_timeouts(connect, response));
            }
            Self::SqlxMysql(pool) => {
                let store = MysqlStore::from_sqlx(pool.clone(), name).expect("a runtime");
                return Arc::new(store.with_timeouts(connect, response));
            }
        };
        Arc::new(postgres.expect("a runtime").with_timeouts(connect, response))
    }

    /// A connection for the application.
    pub async fn get(&self) -> LentConnection {
        match self {
            Self::DeadpoolPostgres(pool) => {
                LentConnection::DeadpoolPostgres(pool.get().await.expect("a connection"))
            }
            Self::SqlxPostgres(pool) => {
                LentConnection::SqlxPostgres(pool.acquire().await.expect("a connection"))
            }
            Self::MysqlAsync(pool) => {
                LentConnection::MysqlAsync(pool.get_conn().await.expect("a connection"))
            }
            Self::SqlxMysql(pool) => LentConnection::SqlxMysql(pool.acquire().await.expect("a connection")),
        }
    }

    /// The answer to the application's statement, over any connection.
    pub async fn ask(&self, sql: &str) -> Option<String> {
        self.get().await.ask(sql).await
    }
}

pub enum LentConnection {
    DeadpoolPostgres(Object),
    SqlxPostgres(PoolConnection<Postgres>),
    MysqlAsync(Conn),
    SqlxMysql(PoolConnection<MySql>),
}

impl LentConnection {
    /// The first column of the last row, as text.
    pub async fn ask(&mut self, sql: &str) -> Option<String> {
        self.try_ask(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub async fn try_ask(&mut self, sql: &str) -> Result<Option<String>, String> {
        let said = |error: &dyn std::error::Error| format!("{error} {:?}", error.source());
        match self {
            Self::DeadpoolPostgres(client) => {
                let answers = client.simple_query(sql).await.map_err(|error| said(&error))?;
                let row = answers.iter().rev().find_map(|answer| match answer {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                    _ => None,
                });
                Ok(row.flatten())
            }
            Self::SqlxPostgres(connection) => {
                let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut **connection).await;
                let rows = rows.map_err(|error| said(&error))?;
                Ok(rows.last().and_then(|row| row.try_get_unchecked(0).expect("a text")))
            }
            Self::MysqlAsync(connection) => {
                let mut answers = connection.query_iter(sql).await.map_err(|error| said(&error))?;
                let mut last = None;
                while !answers.is_empty() {
                    let rows = answers.collect::<mysql_async::Row>().await.map_err(|error| said(&error))?;
                    last = rows.last().and_then(|row| row.get(0)).or(last);
                }
                Ok(last.flatten())
            }
            Self::SqlxMysql(connection) => {
                let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut **connection).await;
                let rows = rows.map_err(|error| said(&error))?;
                let bytes = |row: &sqlx::mysql::MySqlRow| {
                    row.try_get_unchecked::<Option<Vec<u8>>, _>(0).expect("bytes")
                };
                Ok(rows.last().and_then(bytes).map(|bytes| String::from_utf8(bytes).expect("a text")))
            }
        }
    }

    /// What the server calls this session.
    pub async fn session(&mut self) -> String {
        let sql = match self {
            Self::DeadpoolPostgres(_) | Self::SqlxPostgres(_) => "SELECT pg_backend_pid()",
            Self::MysqlAsync(_) | Self::SqlxMysql(_) => "SELECT CONNECTION_ID()",
        };
        self.ask(sql).await.expect("a number")
    }
}
