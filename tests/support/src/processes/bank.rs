//! The application's database, which is also the store, and the payments that its jobs book there.

use std::time::Duration;

use anyhow::Context as _;
use jobs::Run;
use jobs::transaction::FinishError;
use mysql_async::prelude::Queryable as _;
use rusqlite::TransactionBehavior;
use tokio_postgres::IsolationLevel;

#[derive(Clone)]
pub enum Bank {
    Postgres(String),
    Mysql(String),
    Sqlite(String),
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booking {
    /// It finishes the run.
    Finish,
    /// It only checks the lease.
    Check,
    /// It is committed by itself: the control.
    Unprotected,
}

/// A number for each isolation level.
pub const LEVELS: u32 = 4;

/// Steps of a booking at which a test waits, or is killed.
pub trait Steps: Send + Sync {
    /// Before the check.
    fn booked(&self) -> impl Future<Output = ()> + Send;
    /// After the check, before the commit.
    fn checked(&self) -> impl Future<Output = ()> + Send;
}

/// Waits nowhere.
pub struct AtOnce;

impl Steps for AtOnce {
    async fn booked(&self) {}
    async fn checked(&self) {}
}

impl Bank {
    pub fn at(url: &str) -> Self {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres") => Self::Postgres(url.to_owned()),
            Some("mysql") => Self::Mysql(url.to_owned()),
            _ => Self::Sqlite(url.to_owned()),
        }
    }

    pub fn url(&self) -> &str {
        match self {
            Self::Postgres(url) | Self::Mysql(url) | Self::Sqlite(url) => url,
        }
    }

    pub async fn set_up(&self) -> anyhow::Result<()> {
        // Nothing in the table itself refuses a payment that was booked before.
        self.execute(
            "CREATE TABLE IF NOT EXISTS payment (fleet VARCHAR(100), job VARCHAR(100), tick BIGINT, server VARCHAR(200))",
        )
        .await
    }

    pub async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        match self {
            Self::Postgres(_) => self.postgres().await?.batch_execute(sql).await?,
            Self::Mysql(_) => {
                let mut connection = self.mysql().await?;
                connection.query_drop(sql).await?;
                connection.disconnect().await?;
            }
            Self::Sqlite(_) => self.sqlite()?.execute_batch(sql)?,
        }
        Ok(())
    }

    async fn postgres(&self) -> anyhow::Result<tokio_postgres::Client> {
        let (client, connection) = tokio_postgres::connect(self.url(), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn mysql(&self) -> anyhow::Result<mysql_async::Conn> {
        Ok(mysql_async::Conn::new(mysql_async::Opts::from_url(self.url())?).await?)
    }

    fn sqlite(&self) -> anyhow::Result<rusqlite::Connection> {
        let path = self.url().strip_prefix("sqlite://").context("a path")?;
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        Ok(connection)
    }

    /// Books a payment for the run in one transaction. `level` chooses the isolation level.
    pub async fn book(
        &self,
        run: &Run,
        fleet: &str,
        (booking, level): (Booking, u32),
        steps: &impl Steps,
    ) -> anyhow::Result<()> {
        let tick = run.tick().map_or(0, jobs::Timestamp::as_micros);
        let (job, server) = (run.key(), run.server());
        let sql = format!(
            "INSERT INTO payment (fleet, job, tick, server) VALUES ('{fleet}', '{job}', {tick}, '{server}')"
        );
        self.commit(run, &sql, (booking, level), steps).await
    }

    /// Executes a statement for the run, in one transaction.
    pub async fn commit(
        &self,
        run: &Run,
        sql: &str,
        (booking, level): (Booking, u32),
        steps: &impl Steps,
    ) -> anyhow::Result<()> {
        match self {
            Self::Postgres(_) => {
                let mut client = self.postgres().await?;
                let level = match level % LEVELS {
                    0 => IsolationLevel::ReadUncommitted,
                    1 => IsolationLevel::ReadCommitted,
                    2 => IsolationLevel::RepeatableRead,
                    _ => IsolationLevel::Serializable,
                };
                let mut transaction = client.build_transaction().isolation_level(level).start().await?;
                transaction.batch_execute(sql).await?;
                steps.booked().await;
                match booking {
                    Booking::Finish => run.finish(&mut transaction).await?,
                    Booking::Check => run.check(&mut transaction).await?,
                    Booking::Unprotected => {}
                }
                steps.checked().await;
                transaction.commit().await?;
            }
            Self::Mysql(_) => {
                let mut connection = self.mysql().await?;
                let level = match level % LEVELS {
                    0 => mysql_async::IsolationLevel::ReadUncommitted,
                    1 => mysql_async::IsolationLevel::ReadCommitted,
                    2 => mysql_async::IsolationLevel::RepeatableRead,
                    _ => mysql_async::IsolationLevel::Serializable,
                };
                let mut options = mysql_async::TxOpts::new();
                options.with_isolation_level(level);
                let mut transaction = connection.start_transaction(options).await?;
                transaction.query_drop(sql).await?;
                steps.booked().await;
                match booking {
                    Booking::Finish => run.finish(&mut transaction).await?,
                    Booking::Check => run.check(&mut transaction).await?,
                    Booking::Unprotected => {}
                }
                steps.checked().await;
                transaction.commit().await?;
                connection.disconnect().await?;
            }
            Self::Sqlite(_) => {
                steps.booked().await;
                let app = tokio::runtime::Handle::current();
                let checked = || app.block_on(steps.checked());
                tokio::task::block_in_place(|| self.commit_on_sqlite(run, sql, booking, checked))?;
            }
        }
        Ok(())
    }

    /// The same on SQLite, and blocking. The transaction is short: it blocks every other one of the database.
    pub fn commit_on_sqlite(
        &self,
        run: &Run,
        sql: &str,
        booking: Booking,
        checked: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let mut connection = self.sqlite()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        match booking {
            Booking::Finish => run.finish_blocking(&transaction)?,
            Booking::Check => run.check_blocking(&transaction)?,
            Booking::Unprotected => {}
        }
        checked();
        Ok(transaction.commit()?)
    }

    /// Books a payment and finishes the run in a transaction of `sqlx`.
    pub async fn book_by_sqlx(&self, run: &Run, fleet: &str) -> anyhow::Result<()> {
        let sql = format!(
            "INSERT INTO payment (fleet, job, tick, server) VALUES ('{fleet}', '{}', 0, 'sqlx')",
            run.key()
        );
        match self {
            Self::Postgres(url) => {
                let mut transaction = sqlx::PgPool::connect(url).await?.begin().await?;
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *transaction).await?;
                run.check(&mut transaction).await?;
                run.finish(&mut transaction).await?;
                Ok(transaction.commit().await?)
            }
            Self::Mysql(url) => {
                let mut transaction = sqlx::MySqlPool::connect(url).await?.begin().await?;
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *transaction).await?;
                run.check(&mut transaction).await?;
                run.finish(&mut transaction).await?;
                Ok(transaction.commit().await?)
            }
            Self::Sqlite(_) => anyhow::bail!("a transaction of sqlx cannot finish a run on SQLite"),
        }
    }

    /// Books a payment, ignores that the run cannot be finished, and commits all the same.
    pub async fn book_and_ignore(&self, run: &Run, fleet: &str) {
        let sql =
            format!("INSERT INTO payment (fleet, job, tick, server) VALUES ('{fleet}', 'stale', 0, 'stale')");
        match self {
            Self::Postgres(_) => {
                let mut client = self.postgres().await.expect("a connection");
                let mut transaction = client.transaction().await.expect("a transaction");
                transaction.batch_execute(&sql).await.expect("a payment");
                run.finish(&mut transaction).await.expect_err("a refusal");
                drop(transaction.commit().await); // the server rolls back, and the client does not see it
            }
            Self::Mysql(_) => {
                let mut connection = self.mysql().await.expect("a connection");
                let mut transaction =
                    connection.start_transaction(mysql_async::TxOpts::new()).await.expect("a transaction");
                transaction.query_drop(&sql).await.expect("a payment");
                run.finish(&mut transaction).await.expect_err("a refusal");
                transaction.query_drop(&sql).await.expect_err("a payment after the refusal");
                transaction.commit().await.expect("nothing to commit");
            }
            Self::Sqlite(_) => {
                let mut connection = self.sqlite().expect("a connection");
                let transaction = connection.transaction().expect("a transaction");
                transaction.execute_batch(&sql).expect("a payment");
                run.finish_blocking(&transaction).expect_err("a refusal");
                transaction.commit().expect_err("a commit without a transaction");
            }
        }
    }

    /// The payments of a fleet: job, tick, and the number of times it was booked.
    pub async fn payments(&self, fleet: &str) -> anyhow::Result<Vec<(String, i64, i64)>> {
        let sql =
            format!("SELECT job, tick, count(*) FROM payment WHERE fleet = '{fleet}' GROUP BY job, tick");
        self.query(&sql).await
    }

    /// The rows of a query with one text and two numbers.
    pub async fn query(&self, sql: &str) -> anyhow::Result<Vec<(String, i64, i64)>> {
        Ok(match self {
            Self::Postgres(_) => {
                // Without a prepared statement, which a pooler would lose.
                let rows = self.postgres().await?.query_typed(sql, &[]).await?;
                rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
            }
            Self::Mysql(_) => self.mysql().await?.query(sql).await?,
            Self::Sqlite(_) => {
                let connection = self.sqlite()?;
                let mut query = connection.prepare(sql)?;
                let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                rows.collect::<Result<_, _>>()?
            }
        })
    }

    /// The number of bookings of a fleet.
    pub async fn booked(&self, fleet: &str) -> i64 {
        self.payments(fleet).await.expect("payments").iter().map(|(_, _, times)| times).sum()
    }
}

/// The error of a booking that a lease did not allow.
pub fn refusal(result: anyhow::Result<()>) -> FinishError {
    result.expect_err("a refusal").downcast().expect("an error of the check")
}
