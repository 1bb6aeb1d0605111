//! Transactions of the application that commit only under a lease.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use singleton_jobs_policy::timing::request_timeout;

use super::HeldLease;
use super::finish_error::FinishError;
use super::validity::Validity;
use crate::locks::Guard;
use crate::server::Server;
use crate::store::{CachedRecord, Ending, FenceTable, Lease, LeaseKind, Look, NotCurrent};
use crate::{BoxError, Run};

/// A transaction of the application, on the database that is the store: of `tokio-postgres`, `deadpool-postgres`,
/// `mysql_async` or `sqlx`. A transaction of `rusqlite` blocks: see [`Run::finish_blocking`].
pub trait Transaction: sealed::CommitUnderLease {}

impl<T: sealed::CommitUnderLease> Transaction for T {}

pub(crate) mod sealed {
    use super::{AbortFuture, CheckFuture, LeaseCheck};

    pub trait CommitUnderLease: Send {
        /// Checks the lease, and lets the transaction commit only while it is the newest one.
        fn commit_under<'a>(&'a mut self, check: &'a LeaseCheck) -> CheckFuture<'a>;

        /// Makes sure that the transaction cannot be committed.
        fn abort(&mut self) -> AbortFuture<'_>;
    }
}

/// The future of a check.
pub(crate) type CheckFuture<'a> = Pin<Box<dyn Future<Output = Result<(), CheckFailure>> + Send + 'a>>;

/// The future of the end of a transaction.
pub(crate) type AbortFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The reason why a transaction cannot commit.
pub enum CheckFailure {
    /// The lease is not the newest one in this database, or its work was committed before.
    NotNewest,
    /// The transaction is of another kind of database, or the database has no such table.
    NoTable,
    /// The server has ended the transaction before.
    NoTransaction,
    /// The database returned this error.
    Database(BoxError),
}

/// An error of a database, with its code or number.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) struct StatementError {
    pub(crate) code: Option<String>,
    pub(crate) error: BoxError,
}

/// What a transaction checks, and whether it marks the work as finished.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite", feature = "testing")),
    expect(dead_code, reason = "no store is a database")
)]
pub struct LeaseCheck {
    pub(crate) table: FenceTable,
    pub(crate) key: String,
    pub(crate) token: Arc<str>,
    pub(crate) fence: i64,
    pub(crate) ttl: Duration,
    pub(crate) finish: Option<Finish>,
}

/// The mark that the work is finished.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite", feature = "testing")),
    expect(dead_code, reason = "no store is a database")
)]
pub(crate) struct Finish {
    /// Of work that is done once: how long it counts as done.
    pub(crate) done_for: Option<Duration>,
}

impl LeaseCheck {
    pub(crate) fn error(&self, why: NotCurrent) -> FinishError {
        let (key, fence) = (self.key.clone(), self.fence);
        match why {
            NotCurrent::Superseded => FinishError::Superseded { key, fence },
            NotCurrent::AlreadyFinished => FinishError::AlreadyFinished { key, fence },
        }
    }

    /// The error of a transaction that does not see the lease.
    pub(crate) fn unknown(&self) -> FinishError {
        FinishError::UnknownLease { key: self.key.clone(), fence: self.fence }
    }

    /// Explains why a transaction was refused, by what the store itself shows.
    fn explain(&self, look: &Look) -> FinishError {
        let newest = look.state.claimant.as_ref().filter(|newest| newest.token == self.token);
        match newest.filter(|_| look.fence == self.fence && look.state.broken_by.is_none()) {
            Some(_) if look.finished.is_some() => self.error(NotCurrent::AlreadyFinished),
            // The store knows the lease, and the transaction does not.
            Some(_) => self.unknown(),
            None => self.error(NotCurrent::Superseded),
        }
    }
}

/// What identifies the lease of a run.
#[derive(Clone)]
pub(crate) struct RunLease {
    pub(crate) token: Arc<str>,
    pub(crate) kind: LeaseKind,
    pub(crate) ttl: Duration,
    pub(crate) validity: Arc<Validity>,
    /// Whether a transaction has marked the work as finished. It may not have been committed.
    pub(crate) finish_called: Arc<AtomicBool>,
}

impl Run {
    /// Marks this run's work as finished in the application's own transaction: call it last, just before the commit.
    ///
    /// The mark and the work are committed together or not at all. The transaction fails if another server has taken over
    /// since. A tick that was committed is not taken over, even if this server dies right after the commit. See
    /// [effects exactly once](crate::guide::effects).
    ///
    /// In a [detached](Run::detached) run it does nothing.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # mod example {
    /// # use jobs::{Run, State, singleton_job};
    /// #[singleton_job(key = "book-payments", every = "5m", on_crash = "retry")]
    /// async fn book_payments(State(url): State<String>, run: Run) -> anyhow::Result<()> {
    ///     # let tls = tokio_postgres::NoTls;
    ///     # use jobs::store::postgres::tokio_postgres;
    ///     let (mut client, connection) = tokio_postgres::connect(&url, tls).await?;
    ///     tokio::spawn(connection);
    ///     let mut transaction = client.transaction().await?;
    ///     transaction.execute("INSERT INTO payment SELECT * FROM incoming", &[]).await?;
    ///     run.finish(&mut transaction).await?;
    ///     Ok(transaction.commit().await?)
    /// }
    /// # }
    /// ```
    pub async fn finish(&self, transaction: &mut impl Transaction) -> Result<(), FinishError> {
        let Some(lease) = self.lease() else { return Ok(()) };
        // Before it is sent: whatever happens to the answer, the store knows.
        lease.finish_called.store(true, Ordering::SeqCst);
        self.commit_under(lease, transaction, Some(Finish { done_for: self.done_for() })).await
    }

    /// Lets the application's transaction commit only while no other server has taken over, without marking the work as
    /// finished: for a run that commits several transactions, of which [`finish`](Self::finish) ends the last one.
    pub async fn check(&self, transaction: &mut impl Transaction) -> Result<(), FinishError> {
        let Some(lease) = self.lease() else { return Ok(()) };
        self.commit_under(lease, transaction, None).await
    }

    async fn commit_under(
        &self,
        lease: &RunLease,
        transaction: &mut impl Transaction,
        finish: Option<Finish>,
    ) -> Result<(), FinishError> {
        let (server, check) = match self.lease_check(lease, finish) {
            Ok(checked) => checked,
            Err(error) => {
                transaction.abort().await;
                return Err(error);
            }
        };
        let failure = match transaction.commit_under(&check).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        Err(match failure {
            CheckFailure::Database(error) => FinishError::Database(error),
            CheckFailure::NoTable => {
                // A transaction of another kind of database was not asked at all.
                transaction.abort().await;
                check.unknown()
            }
            CheckFailure::NoTransaction => FinishError::NoTransaction { key: check.key.clone() },
            CheckFailure::NotNewest => {
                match server.requests(request_timeout(check.ttl)).show(&check.key).await {
                    Ok(look) => check.explain(&look),
                    Err(error) => FinishError::database(error),
                }
            }
        })
    }

    /// [`finish`](Self::finish) in a transaction of `rusqlite`, which blocks. Begin it with `TransactionBehavior::Immediate`, in
    /// `spawn_blocking`, and keep it short: on SQLite a transaction that writes blocks the keep-alives of all leases.
    #[cfg(feature = "sqlite")]
    pub fn finish_blocking(&self, transaction: &rusqlite::Transaction<'_>) -> Result<(), FinishError> {
        let Some(lease) = self.lease() else { return Ok(()) };
        lease.finish_called.store(true, Ordering::SeqCst);
        let check = self.lease_check(lease, Some(Finish { done_for: self.done_for() }));
        crate::store::sqlite::transaction::commit_under(transaction, check.map(|(_, check)| check))
    }

    /// [`check`](Self::check) in a transaction of `rusqlite`, which blocks.
    #[cfg(feature = "sqlite")]
    pub fn check_blocking(&self, transaction: &rusqlite::Transaction<'_>) -> Result<(), FinishError> {
        let Some(lease) = self.lease() else { return Ok(()) };
        let check = self.lease_check(lease, None);
        crate::store::sqlite::transaction::commit_under(transaction, check.map(|(_, check)| check))
    }

    fn lease_check(
        &self,
        lease: &RunLease,
        finish: Option<Finish>,
    ) -> Result<(Arc<Server>, LeaseCheck), FinishError> {
        let RunLease { token, kind, ttl, validity, .. } = lease;
        let (key, fence) = (self.key().to_owned(), self.fence());
        if let LeaseKind::Slot { .. } = kind {
            return Err(FinishError::Semaphore { key });
        }
        if validity.is_lost() {
            return Err(FinishError::LeaseLost { key, fence });
        }
        let Some(server) = self.weak_server().get() else { return Err(FinishError::ServerEnded { key }) };
        let Some(table) = server.store.fence_table() else {
            return Err(FinishError::NoDatabase { store: server.store.location() });
        };
        Ok((server, LeaseCheck { table, key, token: token.clone(), fence, ttl: *ttl, finish }))
    }
}

impl HeldLease {
    /// The end of a run after its function, as far as the store knows it: if it called [`Run::finish`], whether its work is
    /// committed counts. If the store does not answer, the release decides that.
    pub(crate) async fn settle(&mut self, server: &Server, run: &Run, mut ending: Ending) -> Ending {
        // What the function left behind, as a blocking task, may still call it. From here on that fails, or is seen below: a
        // transaction must not be committed by a run that is recorded as timed out.
        self.validity.lose();
        ending.finish_called = run.finish_called();
        if !ending.finish_called {
            return ending;
        }
        let requests = server.requests(request_timeout(self.lease.ttl));
        let Ok(look) = requests.show(&self.key).await else { return ending };
        let is_newest = |newest: &Lease| newest.token == self.lease.token && look.fence == self.lease.fence;
        if !look.state.claimant.as_ref().is_some_and(is_newest) || look.state.released {
            // It was broken, or another server has the key: its mark is gone, and its record is written.
            return ending;
        }
        let is_committed = look.finished.is_some();
        self.cached = Some(CachedRecord::shown(look));
        ending.settled(is_committed)
    }
}

impl Guard {
    /// Lets the application's transaction commit only while this lock is the newest one of its key: a lock that was lost, and that
    /// another server has acquired since, commits nothing. Commit before the lock is released.
    pub async fn check(&self, transaction: &mut impl Transaction) -> Result<(), FinishError> {
        self.run.check(transaction).await
    }

    /// [`check`](Self::check) in a transaction of `rusqlite`, which blocks.
    #[cfg(feature = "sqlite")]
    pub fn check_blocking(&self, transaction: &rusqlite::Transaction<'_>) -> Result<(), FinishError> {
        self.run.check_blocking(transaction)
    }
}
